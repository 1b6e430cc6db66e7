package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieTogether has the system end the program when this process is killed without a chance to do it. That is when the thread ends that has started the
// program, so the caller keeps it for ever.
func dieTogether(cmd *exec.Cmd) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
