package backends

import (
	"syscall"
)

// dieWithParent has the kernel kill the child when we end in any way.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
