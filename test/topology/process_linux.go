package topology

import "syscall"

// withParent has a process die with this one, also if this one is killed.
func withParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
