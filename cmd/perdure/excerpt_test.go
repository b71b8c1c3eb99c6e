package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackExcerpts: an excerpt shows no line that may hold a secret.
func TestAttackExcerpts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "perdure.yaml")
	text := `name: x
backends:
  - name: a
    env:
      GH_PAT: s3cr3t

      PORT: [8080]
    command: b
    args: [--api-key, s3cr3t]
    url: https://ada:s3cr3t@example.com
    dir: ghp_s3cr3t
    headers: {X: s3cr3t}
    timeout: 5
outgoingAuth:
`
	perduretest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	for line, shown := range map[int]bool{0: false, 1: true, 3: true, 5: false, 6: true, 7: false, 8: true, 9: false, 10: false, 11: false, 12: false, 13: true, 14: true, 99: false} {
		if got := (excerpts{}).excerpt(definitions.Position{File: file, Line: line, Column: 3}); (got != "") != shown {
			t.Errorf("line %d: %q", line, got)
		}
	}
}
