//go:build !unix

package job

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Job is a started command. On this system there are no process groups: the job can send no signal
// but the end, and can't find other processes started by the command.
type Job struct {
	process *os.Process
	changes chan Change
}

// Start starts a command. The error is [ErrNotFound] or [ErrNotRun] if the command is at fault.
func Start(c Command) (*Job, error) {
	path, err := exec.LookPath(c.Args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	p, err := os.StartProcess(path, c.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Env: c.Env})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	j := &Job{process: p, changes: make(chan Change)}
	go j.wait()
	return j, nil
}

// wait tells the end of the command. The Job owns the goroutine, which ends with the command.
func (j *Job) wait() {
	defer close(j.changes)
	code := 1
	if state, err := j.process.Wait(); err == nil {
		code = state.ExitCode()
	}
	j.changes <- Change{Ended: true, Code: code}
}

// Changes returns a channel of the command's end. The channel is closed after the end.
func (j *Job) Changes() <-chan Change { return j.changes }

// Group returns the number of the command.
func (j *Job) Group() int { return j.process.Pid }

// Signal ends the command: this system has no signals.
func (j *Job) Signal(syscall.Signal) { _ = j.Kill() }

// SignalAll ends the command: this system has no signals.
func (j *Job) SignalAll(syscall.Signal) { _ = j.Kill() }

// Kill ends the command at once, and returns nil.
func (j *Job) Kill() []int {
	_ = j.process.Kill()
	return nil
}

// Alive returns false: the job can't find processes left by the command.
func (j *Job) Alive() bool { return false }

// Close does nothing.
func (j *Job) Close() {}

// Guard does nothing: there are no guards.
func Guard(string) {}

// Terminal is none on this system.
type Terminal struct{}

// OpenTerminal returns nil.
func OpenTerminal() *Terminal { return nil }

// Close does nothing.
func (*Terminal) Close() {}

// IsOurs returns false.
func (*Terminal) IsOurs() bool { return false }

// Give does nothing.
func (*Terminal) Give(int, int) {}

// StopSelf returns false: there are no stops.
func StopSelf() bool { return false }

// StopForTerminal returns false.
func StopForTerminal(syscall.Signal) bool { return false }
