//go:build unix

package job

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Job is a started command. The methods are for a single goroutine.
type Job struct {
	pid     int // of the command, and of its process group
	mark    string
	guard   *guard
	changes chan Change
}

// Start starts a command in a process group of its own, with a guard beside it. The caller's
// goroutine must be locked to the main thread: Linux kills the command at the end of this thread,
// in case the guard has been killed as well.
//
// The error is [ErrNotFound] or [ErrNotRun] if the command is at fault.
func Start(c Command) (*Job, error) {
	path, err := lookUp(c.Args[0])
	if err != nil {
		return nil, err
	}
	j := &Job{mark: rand.Text(), changes: make(chan Change)}
	if j.guard, err = startGuard(j.mark, c.Keep); err != nil {
		return nil, fmt.Errorf("the guard can't be started: %w", err)
	}
	attr := &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Env:   marked(c.Env, j.mark),
		Sys:   attributes(),
	}
	p, err := os.StartProcess(path, c.Args, attr)
	if errors.Is(err, unix.ENOEXEC) { // a script without a line #!, which execvp gives to the shell
		p, err = os.StartProcess(shell, append([]string{shell, path}, c.Args[1:]...), attr)
	}
	if err != nil {
		j.guard.dismiss()
		return nil, fmt.Errorf("%w: %w", ErrNotRun, err)
	}
	j.pid = p.Pid
	_ = p.Release() // the process is waited for by its number, as its stops are
	j.guard.tell(j.pid)
	go j.wait()
	return j, nil
}

// shell is the shell of POSIX, at the same place everywhere.
const shell = "/bin/sh"

// standardPath is where commands are looked for without PATH, as execvp does.
const standardPath = "/bin:/usr/bin"

// lookUp returns the path of a command, as a shell finds it: the search goes on after a file that
// can't be run, and names the file if there is no other. The error is [ErrNotFound] or [ErrNotRun].
func lookUp(name string) (string, error) {
	places := []string{name}
	if !strings.Contains(name, "/") {
		places = nil
		for _, dir := range filepath.SplitList(cmp.Or(os.Getenv("PATH"), standardPath)) {
			place := cmp.Or(dir, ".") + "/" + name
			if info, err := os.Stat(place); err == nil && !info.IsDir() {
				places = append(places, place)
			}
		}
	}
	err := fmt.Errorf("%w: %w", ErrNotFound, &exec.Error{Name: name, Err: exec.ErrNotFound})
	for _, place := range places {
		path, why := exec.LookPath(place)
		switch {
		case why == nil:
			return path, nil
		case errors.Is(why, fs.ErrPermission), errors.Is(why, unix.EISDIR):
			err = fmt.Errorf("%w: %w", ErrNotRun, why)
		}
	}
	return "", err
}

// marked returns an environment with a further mark.
func marked(env []string, mark string) []string {
	for _, v := range env {
		if before, is := strings.CutPrefix(v, MarkVariable+"="); is && before != "" {
			mark = before + ":" + mark
			break
		}
	}
	return append(without(env, MarkVariable), MarkVariable+"="+mark)
}

// without returns an environment without a variable.
func without(env []string, name string) []string {
	out := make([]string, 0, len(env)+1)
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			out = append(out, v)
		}
	}
	return out
}

// wait reports the changes of the command until the command has ended. The Job owns the goroutine,
// which ends with the command.
func (j *Job) wait() {
	defer close(j.changes)
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(j.pid, &status, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil: // can't be: no other goroutine waits for the command
			j.changes <- Change{Ended: true, Code: 1}
			return
		case status.Stopped():
			j.changes <- Change{Stopped: status.StopSignal()}
		case status.Signaled():
			j.changes <- Change{Ended: true, Signal: status.Signal()}
			return
		case status.Exited():
			j.changes <- Change{Ended: true, Code: status.ExitStatus()}
			return
		}
	}
}

// Changes returns a channel of the command's stops and of its end. The channel is closed after the
// end.
func (j *Job) Changes() <-chan Change { return j.changes }

// Group returns the number of the command's process group.
func (j *Job) Group() int { return j.pid }

// Signal sends a signal to the command's process group.
func (j *Job) Signal(sig syscall.Signal) {
	_ = unix.Kill(-j.pid, sig) // the group may be gone
}

// SignalAll sends a signal to all processes of the job but for jobs within this job: the process
// that has started such a job gets the signal, and passes the signal on.
func (j *Job) SignalAll(sig syscall.Signal) {
	others := ownProcesses(j.pid, j.mark)
	j.Signal(sig)
	for _, pid := range others {
		if group, err := unix.Getpgid(pid); err == nil && group != j.pid {
			_ = unix.Kill(pid, sig)
		}
	}
}

// Kill ends all processes of the job at once. Kill returns the processes that the system doesn't
// let this process end: processes of another user, such as those of sudo.
func (j *Job) Kill() (foreign []int) { return kill(j.pid, j.mark) }

// Alive reports whether a process of the job goes on.
func (j *Job) Alive() bool { return len(processes(j.pid, j.mark)) > 0 }

// Close dismisses the guard. Call Close when the job has ended, or shall go on unguarded.
func (j *Job) Close() { j.guard.dismiss() }

// kill ends all processes of a job that there are now. A process may start another between the look
// and the signal, so callers look again. kill returns the processes of other users.
func kill(group int, mark string) (foreign []int) {
	_ = sendSignal(-group, unix.SIGKILL) // most are ended by this
	for _, pid := range processes(group, mark) {
		if errors.Is(sendSignal(pid, unix.SIGKILL), unix.EPERM) {
			foreign = append(foreign, max(pid, -pid)) // -pid stands for a group
		}
	}
	return foreign
}

// sendSignal sends a signal to a process or a group. Tests put another function here.
var sendSignal = unix.Kill
