package job

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes has the command run in a process group of its own, and be killed with this thread.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// processes returns the processes of a job that go on, in no order. Processes that have ended and
// aren't waited for yet by their parents don't go on.
func processes(group int, mark string) (pids []int) {
	session, err := unix.Getsid(0)
	if err != nil {
		session = -1
	}
	all, _ := os.ReadDir("/proc") // without /proc only the group can be found
	if len(all) == 0 && unix.Kill(-group, 0) == nil {
		return []int{-group}
	}
	variable := []byte(MarkVariable + "=" + mark)
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		text, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended
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
			if err != nil || !hasVariable(env, variable) {
				continue
			}
		}
		pids = append(pids, pid)
	}
	return pids
}

// stat is what matters here of a process's line in /proc/PID/stat.
type stat struct {
	ended          bool
	parent         int
	group, session int
}

// readStat reads the line. The name of the program, in parentheses, may have blanks and parentheses
// itself, so that the fields are counted from the last one.
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

// hasVariable reports whether an environment has a variable with exactly this value.
func hasVariable(env, variable []byte) bool {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, variable) {
			return true
		}
	}
	return false
}
