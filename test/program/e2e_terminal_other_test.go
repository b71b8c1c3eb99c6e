//go:build !linux

package program_test

import (
	"os/exec"
	"testing"
)

// A terminal is a command with a person at the keyboard; only Linux has it here.
type terminal struct{ ended chan error }

func startInTerminal(t testing.TB, _ *exec.Cmd) *terminal {
	t.Helper()
	t.Skip("needs the pseudo-terminals of Linux")
	return nil
}

func coloured(cmd *exec.Cmd) *exec.Cmd { return cmd }

func (*terminal) shows(string) {}
func (*terminal) types(string) {}
func (*terminal) enter(string) {}
func (*terminal) text() string { return "" }
func (*terminal) rows() string { return "" }
