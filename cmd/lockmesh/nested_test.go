//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// nest is a run under the key outer of a run under the key inner, and two processes of the inner
// run's command: a shell, and a process that the shell has started.
type nest struct {
	outer *process
	pids  []int
}

// startNest starts a nest, and waits until its processes run. The shell ignores SIGTERM.
func (b *bench) startNest(flags ...string) *nest {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	name := filepath.Join(b.dir, "out")
	_ = os.Remove(name)
	args := append(append([]string{"run"}, flags...), "outer", "--", self, "run", "inner", "--", "sh", "-c",
		"trap '' TERM; sleep 1000 & echo $$ $! > out; while :; do wait; done")
	n := &nest{outer: b.start(args...)}
	testwait.Until(b.t, "the processes run", func() bool {
		text, _ := os.ReadFile(name)
		if !strings.HasSuffix(string(text), "\n") {
			return false
		}
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				b.t.Fatal(err)
			}
			n.pids = append(n.pids, pid)
		}
		return true
	})
	b.t.Cleanup(func() {
		for _, pid := range n.pids {
			if state(pid) != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return n
}

// childrenOf returns the children of a process that go on.
func childrenOf(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && fields[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestTheGuardHasItsOwnName: a user who ends all processes named lockmesh, by killall or pkill,
// leaves the guard, which ends the command.
func TestTheGuardHasItsOwnName(t *testing.T) {
	needsProc(t)
	b := newBench(t)
	p, pids := b.startFamily("sleep 1000")
	guards := 0
	for _, pid := range childrenOf(t, p.Process.Pid) {
		if slices.Contains(pids, pid) {
			continue // the command
		}
		guards++
		testwait.Until(t, "the guard's name", func() bool {
			name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
			return err == nil && string(name) == "lm-guard\n"
		})
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil || strings.Contains(string(line), "lockmesh") || !strings.HasPrefix(string(line), "lm-guard\x00") {
			t.Errorf("the guard's command line is %q, %v", line, err)
		}
	}
	if guards != 1 {
		t.Errorf("the run has %d guards", guards)
	}
	p.signal(syscall.SIGKILL)
	p.waitInTime()
	gone(t, pids)
}

// freeOnlyAfter waits until both keys are free, and fails if a process of the nest goes on then.
func (b *bench) freeOnlyAfter(n *nest) {
	b.t.Helper()
	for _, key := range []string{"outer", "inner"} {
		b.wants(0, "run", key, "--", "true")
		for _, pid := range n.pids {
			if s := state(pid); s != 0 {
				b.t.Errorf("process %d goes on (%c) when the key %s is free", pid, s, key)
			}
		}
	}
}

// TestARunWithinARunIsKilled: no process of either command is left when the keys are free.
func TestARunWithinARunIsKilled(t *testing.T) {
	needsProc(t)
	b := newBench(t)
	for range 12 {
		n := b.startNest()
		n.outer.signal(syscall.SIGKILL)
		n.outer.waitInTime()
		b.freeOnlyAfter(n)
	}
}

// TestARunWithinARunLosesItsLock: the end of the outer lock is the end of the inner command.
func TestARunWithinARunLosesItsLock(t *testing.T) {
	needsProc(t)
	b := newBench(t)
	for range 4 {
		n := b.startNest("--grace", "50ms")
		b.wants(0, "evict", "outer", "--node", b.node())
		if code := n.outer.waitInTime(); code != 79 {
			t.Errorf("the outer run ends with %d: %s", code, n.outer.err.String())
		}
		b.freeOnlyAfter(n)
	}
}

// TestARunWithinARunGetsASignalOnce: the inner run forwards the signal, and no other process does.
func TestARunWithinARunGetsASignalOnce(t *testing.T) {
	needsProc(t)
	b := newBench(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := b.start("run", "outer", "--", self, "run", "inner", "--", "bash", "-c",
		"trap 'echo told' TERM; trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done")
	p.prints("ready")
	p.signal(syscall.SIGTERM)
	p.prints("told")
	p.signal(syscall.SIGUSR1)
	if code := p.waitInTime(); code != 7 || strings.Count(p.out.String(), "told") != 1 {
		t.Errorf("the run ends with %d, and prints %s", code, p.out.String())
	}
}
