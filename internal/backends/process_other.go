//go:build unix && !linux

package backends

import (
	"syscall"
)

// dieWithParent does nothing: the child sees the end of its stdin.
func dieWithParent(*syscall.SysProcAttr) {}
