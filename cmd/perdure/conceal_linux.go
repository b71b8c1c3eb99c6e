package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dumpableVar set to anything leaves the process open to debuggers of its user.
const dumpableVar = "PERDURE_DUMPABLE"

// conceal prevents other processes of the same user from reading the memory, the
// environment and the open files of this one, from tracing it, and from making it dump
// core. Root still can. Child processes are not concealed.
func conceal() error {
	if os.Getenv(dumpableVar) != "" {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hiding memory and environment from other processes: %w", err)
	}
	return nil
}
