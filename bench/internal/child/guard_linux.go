package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// killWithParent makes the system kill the program when this process is killed and can't clean up.
// The system does so at the end of the thread that started the program, so killWithParent locks the
// calling goroutine to its thread for good.
func killWithParent(cmd *exec.Cmd) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
