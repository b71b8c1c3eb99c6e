package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops terminal input that was not read yet.
func forgetTyped(in io.Reader) {
	if f, ok := in.(*os.File); ok {
		_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) // an error means it is no terminal
	}
}
