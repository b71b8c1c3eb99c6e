package main

import (
	"os"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackLinkedDirectory: a first configuration is written to the directory of the
// command, also where a stranger's repository has a link to another place in it.
func TestAttackLinkedDirectory(t *testing.T) {
	elsewhere := t.TempDir()
	t.Chdir(t.TempDir())
	perduretest.NoError(t, os.Symlink(elsewhere, "tools"))
	if written, err := create([]textFile{{"perdure.yaml", "first"}, {"tools/second.yaml", "second"}}); err == nil || len(written) != 1 {
		t.Errorf("written are %q, %v", written, err)
	}
	if found, err := os.ReadDir(elsewhere); err != nil || len(found) > 0 {
		t.Errorf("the linked directory has %v, %v", found, err)
	}
	if text, err := os.ReadFile("perdure.yaml"); err != nil || string(text) != "first" {
		t.Errorf("the configuration is %q, %v", text, err)
	}
}
