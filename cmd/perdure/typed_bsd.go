//go:build darwin || freebsd || netbsd || openbsd

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops what was typed at a terminal and not read yet.
func forgetTyped(in io.Reader) {
	const read = 1 // FREAD of sys/fcntl.h
	if f, ok := in.(*os.File); ok {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, read) // fails if it is no terminal
	}
}
