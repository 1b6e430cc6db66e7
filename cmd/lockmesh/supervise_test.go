//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

const (
	sigTerm = syscall.SIGTERM
	sigKill = syscall.SIGKILL
)

// family is a script that starts processes in the ways of shells: a child, a grandchild, and a
// child in a process group of its own. The script prints their numbers, and "ready".
const family = `sleep 1000 & echo $!
sh -c 'sleep 1000 & echo $!; wait' &
bash -c 'set -m; sleep 1000 & echo $!; wait' &
echo $$; sleep 0.1; until [ "$(cat out | wc -l)" -ge 4 ]; do sleep 0.01; done; echo ready; `

// startFamily runs a family under a lock, with a last command of its shell, and returns its
// processes.
func (b *bench) startFamily(last string, flags ...string) (*process, []int) {
	b.t.Helper()
	args := append(append([]string{"run"}, flags...), "k", "--", "bash", "-c", "("+family+") > out 2>&1; "+last)
	p := b.start(args...)
	var pids []int
	testwait.Until(b.t, "the processes run", func() bool {
		text, _ := os.ReadFile(b.dir + "/out")
		if !strings.Contains(string(text), "ready") {
			return false
		}
		pids = nil
		for _, line := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(line); err == nil {
				pids = append(pids, pid)
			}
		}
		return true
	})
	if len(pids) != 4 {
		b.t.Fatalf("the processes are %v", pids)
	}
	b.t.Cleanup(func() {
		for _, pid := range pids {
			if state(pid) != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return p, pids
}

// state returns the letter of a process's state: S, T for stopped; zero if it has ended.
func state(pid int) byte {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	rest := text[strings.LastIndexByte(string(text), ')')+2:]
	if strings.IndexByte("ZXx", rest[0]) >= 0 {
		return 0
	}
	return rest[0]
}

// gone waits until processes have ended.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		testwait.Until(t, "the end of process "+strconv.Itoa(pid), func() bool { return state(pid) == 0 })
	}
}

func needsProc(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system has no /proc, by which the test looks at processes")
	}
}

// TestKilled: a run that is killed leaves no process behind, and its key is free only then.
func TestKilled(t *testing.T) {
	needsProc(t)
	b := newBench(t)
	p, pids := b.startFamily("wait; sleep 1000")
	p.signal(syscall.SIGKILL)
	p.waitInTime()
	next := b.start("run", "k", "--", "sh", "-c", "echo $LOCKMESH_TOKEN")
	if code := next.waitInTime(); code != 0 {
		t.Errorf("the next run ends with %d: %s", code, next.err.String())
	}
	for _, pid := range pids {
		if s := state(pid); s != 0 {
			t.Errorf("process %d goes on (%c) when the key is free", pid, s)
		}
	}
}

// TestSignalsArePassedOn: the command handles each signal itself. Its loop starts no process,
// since bash loses a trapped SIGINT that comes while its first process in the foreground starts.
func TestSignalsArePassedOn(t *testing.T) {
	b := newBench(t)
	for name, sig := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM,
	} {
		p := b.start("run", "k", "--", "bash", "-c", "trap 'echo got "+name+"; exit 7' "+name+"; echo ready; while :; do :; done")
		p.prints("ready")
		p.signal(sig)
		if code := p.waitInTime(); code != 7 || !strings.Contains(p.out.String(), "got "+name) {
			t.Errorf("%s: the run ends with %d, and prints %s", name, code, p.out.String())
		}
	}
	// Without a trap the command dies of the signal.
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		p := b.start("run", "k", "--", "sh", "-c", "ulimit -c 0; echo ready; exec sleep 1000")
		p.prints("ready")
		p.signal(sig)
		if code := p.waitInTime(); code != 128+int(sig) || strings.Contains(p.err.String(), "goroutine") {
			t.Errorf("%v: the run ends with %d, and prints %s", sig, code, p.err.String())
		}
	}
	b.wants(0, "run", "-n", "k", "--", "true")
}

// TestSignalsWhileWaiting: a wait ends at once, and no request is left in the queue.
func TestSignalsWhileWaiting(t *testing.T) {
	b := newBench(t)
	holder := b.start("run", "k", "--", "sh", "-c", "echo ready; exec sleep 1000")
	holder.prints("ready")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		p := b.start("run", "k", "--", "echo", "ran")
		testwait.Until(t, "it waits", func() bool { return b.waiters("k") > 0 })
		p.signal(sig)
		if code := p.waitInTime(); code != 128+int(sig) || p.out.String() != "" || strings.Contains(p.err.String(), "goroutine") {
			t.Errorf("%v: the wait ends with %d, and prints %s", sig, code, p.err.String())
		}
		testwait.Until(t, "nothing waits", func() bool { return b.waiters("k") == 0 })
	}
}

// TestIgnoredSignals: a run under nohup isn't ended by SIGHUP, nor is its command.
func TestIgnoredSignals(t *testing.T) {
	b := newBench(t)
	p := b.shell("trap '' HUP; exec lockmesh run k -- sh -c 'echo ready; read x; echo done'")
	in := p.pipe(b)
	p.start()
	p.prints("ready")
	p.signal(syscall.SIGHUP)
	if _, err := in.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	if code := p.waitInTime(); code != 0 || !strings.Contains(p.out.String(), "done") {
		t.Errorf("it ends with %d, and prints %s", code, p.out.String())
	}
}

// TestStopAndContinue: Ctrl-Z stops the command and the run; fg continues both.
func TestStopAndContinue(t *testing.T) {
	needsProc(t)
	b := newBench(t)
	p, pids := b.startFamily("sleep 1000")
	for range 3 {
		p.signal(syscall.SIGTSTP)
		testwait.Until(t, "the run is stopped", func() bool { return state(p.Process.Pid) == 'T' })
		testwait.Until(t, "the command's process is stopped", func() bool { return state(pids[0]) == 'T' })
		p.signal(syscall.SIGCONT)
		testwait.Until(t, "all go on", func() bool { return state(p.Process.Pid) != 'T' && state(pids[0]) != 'T' })
	}
	p.signal(syscall.SIGTERM)
	if code := p.waitInTime(); code != 143 {
		t.Errorf("the run ends with %d: %s", code, p.err.String())
	}
}

// TestTheLockIsLostWhileTheAgentIsSilent: the command gets SIGTERM and SIGKILL while the lease
// lasts.
func TestTheLockIsLostWhileTheAgentIsSilent(t *testing.T) {
	needsProc(t)
	b := newBench(t, "--expect", "1", "--max-ttl", brief)
	p, pids := b.startFamily("trap 'echo told >> told' TERM; while :; do sleep 0.01; done", "--grace", "2s")
	b.agent.signal(syscall.SIGSTOP)
	if code := p.waitInTime(); code != 79 {
		t.Errorf("the run ends with %d", code)
	}
	for _, pid := range pids {
		if s := state(pid); s != 0 {
			t.Errorf("process %d goes on (%c)", pid, s)
		}
	}
	if told, _ := os.ReadFile(b.dir + "/told"); len(told) == 0 {
		t.Error("the command wasn't told to end")
	}
	if text := p.err.String(); !strings.Contains(text, "the command was killed") {
		t.Errorf("the complaint is %s", text)
	}
}

// TestEviction: the command is signalled at once, and may end in good order.
func TestEviction(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "k", "--", "bash", "-c", "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	p.prints("ready")
	b.wants(0, "evict", "k", "--node", b.node(), "--reason", "stuck since noon")
	const why = `ended: "k": the lease was evicted: by `
	if code := p.waitInTime(); code != 79 || !strings.Contains(p.out.String(), "cleaned") || !strings.Contains(p.err.String(), why) || !strings.Contains(p.err.String(), ": stuck since noon (") {
		t.Errorf("the run ends with %d, prints %s and complains %s", code, p.out.String(), p.err.String())
	}
}

// TestTheAgentIsKilled: the command is ended, since its lock can't be kept.
func TestTheAgentIsKilled(t *testing.T) {
	needsProc(t)
	b := newBench(t)
	p, pids := b.startFamily("sleep 1000")
	b.agent.signal(syscall.SIGKILL)
	if code := p.waitInTime(); code != 79 {
		t.Errorf("the run ends with %d: %s", code, p.err.String())
	}
	gone(t, pids)
}

// TestTheAgentIsKilledUnderClientsThatWait: the clients' exit code shows that no node answers any
// more.
func TestTheAgentIsKilledUnderClientsThatWait(t *testing.T) {
	b := newBench(t)
	holder, _ := b.startPiped("lock", "k")
	holder.prints("k")
	run, lock := b.start("run", "k", "--", "true"), b.start("lock", "k")
	testwait.Until(t, "two wait", func() bool { return b.waiters("k") == 2 })
	clients := []*process{run, lock}
	for _, args := range [][]string{{"watch", "-o", "json"}, {"electorate", "--watch", "-o", "json"}} {
		p := b.start(args...)
		p.prints("}\n")
		clients = append(clients, p)
	}
	b.agent.signal(syscall.SIGKILL)
	for _, p := range clients {
		if code := p.waitInTime(); code != 69 || !strings.Contains(p.err.String(), "lockmesh status") {
			t.Errorf("%q ends with %d: %s", p.Args, code, p.err.String())
		}
	}
}

func TestRevocation(t *testing.T) {
	b := newBench(t)
	if text := b.wants(0, "revoke", "k").out.String(); text != "no node holds k: no holder is asked\n" {
		t.Errorf("revoke of a free key prints %q", text)
	}
	p, in := b.startPiped("run", "k", "--", "sh", "-c", "echo ready; read x")
	p.prints("ready")
	if text := b.wants(0, "revoke", "k", "--reason", "free the disk").out.String(); text != "the holders of k are asked to release it\n" {
		t.Errorf("revoke prints %q", text)
	}
	p.complains("to free the disk: the command goes on")
	text := strings.Join(strings.Fields(b.wants(0, "revoke", "-h").out.String()), " ")
	if !strings.Contains(text, "a Redis client can't be told") {
		t.Errorf("the help of revoke: %s", text)
	}
	in.Close()
	p.waitInTime()
	p = b.start("run", "--yield", "k", "--", "sh", "-c", "echo ready; exec sleep 1000")
	p.prints("ready")
	b.wants(0, "run", "--revoke", "my turn", "k", "--", "true")
	if code := p.waitInTime(); code != 143 || !strings.Contains(p.err.String(), "my turn") {
		t.Errorf("the run ends with %d: %s", code, p.err.String())
	}
}

// TestWhatACommandLeavesRunning: the key is held until all processes of the group have ended; with
// --command-only, until the command has ended.
func TestWhatACommandLeavesRunning(t *testing.T) {
	needsProc(t)
	b := newBench(t)
	p := b.start("run", "k", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; exit 5")
	p.prints("\n")
	pid, err := strconv.Atoi(strings.TrimSpace(p.out.String()))
	if err != nil {
		t.Fatal(err)
	}
	b.wants(75, "run", "-n", "k", "--", "true")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.waitInTime(); code != 5 {
		t.Errorf("the run ends with %d", code)
	}
	p = b.start("run", "--command-only", "k", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; exit 5")
	if code := p.waitInTime(); code != 5 {
		t.Errorf("the run ends with %d", code)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(p.out.String())); err != nil || state(pid) == 0 {
		t.Errorf("the process %d was ended", pid)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	b.wants(0, "run", "-n", "k", "--", "true")
}

// TestProcessesOfAnotherUser: the user learns, once, which processes can't be ended, and isn't
// told that the command was killed.
func TestProcessesOfAnotherUser(t *testing.T) {
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	s := &supervisor{holder: &holder{link: &link{g: &globals{streams: &streams{err: said}}}}, loss: lockmesh.ErrLost, forced: true}
	if text := s.result().Error(); !strings.Contains(text, "was killed") {
		t.Errorf("after a kill: %s", text)
	}
	for _, foreign := range [][]int{nil, {4711, 4712}, {4711}} {
		s.note(foreign)
	}
	text, err := os.ReadFile(said.Name())
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "can't be ended from here, and go on without the lock: 4711 4712;") {
		t.Errorf("the user is told %q, %v", text, err)
	}
	if text := s.result().Error(); strings.Contains(text, "killed") || !strings.Contains(text, "couldn't be ended") {
		t.Errorf("the result is %s", text)
	}
}
