package job

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes has the command run in a process group of its own, and be killed with this thread.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// setName changes the name of this process, so far as other processes see a name in /proc.
func setName(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // without /proc no process looks for names
}

// processes returns the running processes of a job and of the jobs within, in no order. An ended
// process doesn't count as running, even if the parent has yet to wait for the process.
func processes(group int, mark string) []int {
	return find(group, func(env []byte) bool { return slices.Contains(marks(env), mark) })
}

// ownProcesses does the same as processes, without jobs within the job.
func ownProcesses(group int, mark string) []int {
	return find(group, func(env []byte) bool {
		all := marks(env)
		return len(all) > 0 && all[len(all)-1] == mark
	})
}

// find returns the running processes of a group, and the running processes of this process's
// session with an environment accepted by has.
func find(group int, has func(env []byte) bool) (pids []int) {
	session, err := unix.Getsid(0)
	if err != nil {
		session = -1
	}
	all, _ := os.ReadDir("/proc") // without /proc only the group can be found
	if len(all) == 0 && unix.Kill(-group, 0) == nil {
		return []int{-group}
	}
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		text, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // an ended process
		}
		s, ok := readStat(text)
		if !ok || s.ended {
			continue
		}
		if s.group != group {
			if s.session != session {
				continue
			}
			env, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
			if err != nil || !has(env) {
				continue
			}
		}
		pids = append(pids, pid)
	}
	return pids
}

// stat has the fields in use here of a process's line in /proc/PID/stat.
type stat struct {
	ended          bool
	parent         int
	group, session int
}

// readStat reads the line. The name of the program, in parentheses, may have blanks and parentheses
// itself, so readStat counts the fields from the last parenthesis.
func readStat(text []byte) (s stat, ok bool) {
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return s, false
	}
	fields := bytes.Fields(text[i+1:])
	if len(fields) < 4 {
		return s, false
	}
	s.ended = bytes.ContainsAny(fields[0], "ZXx")
	for j, to := range []*int{&s.parent, &s.group, &s.session} {
		n, err := strconv.Atoi(string(fields[j+1]))
		if err != nil {
			return s, false
		}
		*to = n
	}
	return s, true
}

// marks returns the marks in an environment, the outermost job's first.
func marks(env []byte) []string {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if all, is := bytes.CutPrefix(v, []byte(MarkVariable+"=")); is {
			return strings.Split(string(all), ":")
		}
	}
	return nil
}
