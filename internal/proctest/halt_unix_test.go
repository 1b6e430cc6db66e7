//go:build unix

package proctest

import (
	"errors"
	"syscall"
)

// halt stops the process, as kill -STOP does, and returns once the process has stopped: after the
// signal was sent, the threads of a process run on for a moment, and may answer a message.
func (p *process) halt() {
	p.t.Helper()
	p.must(p.cmd.Process.Signal(syscall.SIGSTOP))
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil || !status.Stopped():
			p.t.Fatalf("%s doesn't stop: %v, status %v", p.name, err, status)
		}
		return
	}
}

// resume lets a stopped process go on.
func (p *process) resume() {
	p.t.Helper()
	p.must(p.cmd.Process.Signal(syscall.SIGCONT))
}
