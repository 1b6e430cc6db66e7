//go:build unix

package job

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guard is a process beside this process. If this process is killed, the guard ends the job, and
// keeps the locks' connections open until the last process of the job is gone: before, no other
// node can be granted a lock.
type guard struct {
	pipe *os.File // the way from this process to the guard
	pid  int
}

// guardName is the name of the guard's process: a user who ends all processes named lockmesh, as
// killall does, leaves the guard.
const guardName = "lm-guard"

// Guard is the guard's whole program: call it, and exit, if the first argument of the process is
// [GuardVerb]. The second is the mark of the job.
//
// The guard reads lines from file 3: the number of the command's group, and "done" when there is
// nothing to guard any more. When the file ends without that line, the guard ends the job.
func Guard(mark string) {
	// Neither the terminal nor a user who ends all processes of this name in good order ends the
	// guard before the watched process.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGPIPE)
	setName(guardName)
	lines := bufio.NewScanner(os.NewFile(3, "pipe"))
	group := 0
	for lines.Scan() {
		if lines.Text() == "done" {
			return
		}
		if n, err := strconv.Atoi(lines.Text()); err == nil && n > 1 {
			group = n
		}
	}
	if group == 0 {
		return // the command wasn't started, or was killed with its parent
	}
	for from := time.Now(); len(processes(group, mark)) > 0; time.Sleep(Pause(from)) {
		kill(group, mark)
	}
}

// startGuard starts a guard. The guard gets copies of the files: if package os handed the file of a
// connection to a process, the connection would become blocking here, too.
func startGuard(mark string, keep []*os.File) (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		write.Close()
		return nil, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd()}
	for _, f := range append([]*os.File{read}, keep...) {
		fd, err := duplicate(f)
		if err != nil {
			write.Close()
			return nil, err
		}
		defer func() { _ = unix.Close(fd) }()
		files = append(files, uintptr(fd))
	}
	pid, err := syscall.ForkExec(self, []string{guardName, GuardVerb, mark}, &syscall.ProcAttr{
		Env:   withoutMesh(os.Environ()),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		write.Close()
		return nil, err
	}
	return &guard{pipe: write, pid: pid}, nil
}

// secretVariables are the beginnings of the names of variables with secrets.
var secretVariables = []string{"LOCKMESH_SECRET", "LOCKMESH_ADMIN_TOKEN", "LOCKMESH_RESP_PASSWORD", "LOCKMESH_REGISTER_TOKEN"}

// withoutMesh returns an environment without secrets: the guard has no use for secrets. The guard
// has no marks either: a job around this job would end the guard together with this process, and
// nothing would be left to end this job.
func withoutMesh(env []string) (out []string) {
	for _, v := range without(env, MarkVariable) {
		if !slices.ContainsFunc(secretVariables, func(name string) bool { return strings.HasPrefix(v, name) }) {
			out = append(out, v)
		}
	}
	return out
}

// duplicate returns a copy of a file's descriptor; the copy is closed in started programs.
func duplicate(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fd int
	var failed error
	if err := raw.Control(func(from uintptr) {
		fd, failed = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 3)
	}); err != nil {
		return 0, err
	}
	return fd, failed
}

// tell gives the guard the number of the command's group.
func (g *guard) tell(group int) { _, _ = fmt.Fprintln(g.pipe, group) }

// dismiss ends the guard. The end takes a moment, since the guard may still be starting, and this
// process must not wait so long; the goroutine ends with the guard, or with this process.
func (g *guard) dismiss() {
	_, _ = fmt.Fprintln(g.pipe, "done")
	_ = g.pipe.Close()
	go func() {
		for {
			if _, err := unix.Wait4(g.pid, nil, 0, nil); err != unix.EINTR {
				return
			}
		}
	}()
}
