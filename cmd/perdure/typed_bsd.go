//go:build darwin || freebsd || netbsd || openbsd

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops terminal input that was not read yet.
func forgetTyped(in io.Reader) {
	const read = 1 // FREAD of sys/fcntl.h
	if f, ok := in.(*os.File); ok {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, read) // an error means it is no terminal
	}
}
