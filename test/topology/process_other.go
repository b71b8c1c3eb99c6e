//go:build !linux

package topology

import "syscall"

// withParent is of Linux only: elsewhere processes outlive one that is killed.
func withParent(*syscall.SysProcAttr) {}
