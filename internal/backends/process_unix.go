//go:build unix

package backends

import (
	"os"
	"os/exec"
	"syscall"
)

const terminate = syscall.SIGTERM

// ownGroup makes cmd the leader of a process group, so that it can be ended
// with all that it starts and a Ctrl-C in our terminal does not reach it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

// signalGroup signals all processes of cmd's group. A missing group is no error.
func signalGroup(cmd *exec.Cmd, sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, s)
	}
}
