package environ

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// DumpableVar set to anything leaves the process open to debuggers of its user.
const DumpableVar = "PERDURE_DUMPABLE"

// Conceal prevents other processes of the same user from reading the memory, the
// environment and the open files of this one, from tracing it, and from making it dump
// core. Root still can. Child processes are not concealed.
func Conceal() error {
	if os.Getenv(DumpableVar) != "" {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hiding memory and environment from other processes: %w", err)
	}
	return nil
}
