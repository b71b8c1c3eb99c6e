package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestFileOfATokenFlag: a file that lists tokens is not sent as one.
func TestFileOfATokenFlag(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	for text, want := range map[string]string{"abc\n": "", "tokens:\n  - {subject: ci}\n": "nothing else"} {
		perduretest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := tokenFlags{TokenFile: file}.token()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
