//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/internal/freeport"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// wantsComplaint fails unless the process has printed nothing, and has ended with a single line on
// standard error that contains the words.
func wantsComplaint(t *testing.T, p *process, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(p.err.String(), w) {
			t.Errorf("%q isn't in %q", w, p.err.String())
		}
	}
	if p.out.String() != "" || strings.Count(p.err.String(), "\n") != 1 {
		t.Errorf("%q prints %q, and complains %q", p.Args, p.out.String(), p.err.String())
	}
}

func TestWaitForVoters(t *testing.T) {
	b := newBench(t)
	for _, condition := range []string{"--ready", "--settled"} {
		if p := b.wants(0, "wait", condition, "-w", "0"); p.out.String()+p.err.String() != "" {
			t.Errorf("a pipe gets %q and %q", p.out.String(), p.err.String())
		}
		e := objects[admin.Electorate](t, b.wants(0, "wait", condition, "-o", "json").out.String())
		if len(e) != 1 || !e[0].Ready || len(e[0].Voters) != 1 {
			t.Errorf("%s prints %+v", condition, e)
		}
	}
	for _, args := range [][]string{{}, {"--ready", "--settled"}, {"--ready", "--free", "k"}, {"--ready", "-w", "soon"}} {
		wantsComplaint(t, b.wants(64, append([]string{"wait"}, args...)...), "--")
	}
	wantsComplaint(t, b.wants(64, "wait", "--ready", "-w", "-1s"), "-w -1s: a wait is not negative")
	wantsComplaint(t, b.wants(64, "wait", "--free", "a\nb"), "key")
}

// TestWaitWithoutAMajority: of two voters the second is missing until the test starts it.
func TestWaitWithoutAMajority(t *testing.T) {
	b := newBench(t)
	b.agent.signal(syscall.SIGTERM)
	b.agent.waitInTime()
	first, second := freeport.Address(t), freeport.Address(t)
	agent := func(name, bind string) []string {
		return []string{
			"agent", "--name", name, "--socket", b.socket + name, "--bind", bind,
			"--voters", "a,b", "--peers", first + "," + second, "--max-ttl", "1s",
		}
	}
	b.start(agent("a", first)...)
	addr := b.socket + "a"
	ready := b.start("wait", "-a", addr, "--ready", "--timeout", "1m", "-v")
	ready.complains("waiting for locks to be granted: ") // the wait asks on
	wantsComplaint(t, b.wants(75, "wait", "-a", addr, "--ready", "-w", "0"), "the wait of 0s for locks to be granted is over: ", " of 2 voters count: ")
	wantsComplaint(t, b.wants(75, "wait", "-a", addr, "--settled", "-w", "0.1"), "the wait of 100ms for the mesh to settle is over: ", " of 2 voters count: ")
	// A node of --join waits for a majority as an agent does, however short --timeout is.
	join := []string{"--join", first, "--voters", "a,b", "--max-ttl", "1s", "wait", "--ready"}
	wantsComplaint(t, b.wants(75, append(join, "-w", "0.1")...), "the wait of 100ms for locks to be granted is over: ", " of 2 voters count: ")
	joined := b.start(append(join, "--timeout", "1ms")...)
	b.start(agent("b", second)...)
	for _, p := range []*process{ready, joined} {
		if code := p.waitInTime(); code != 0 {
			t.Errorf("%q ends with %d: %s", p.Args, code, p.err.String())
		}
	}
	b.wants(0, "wait", "-a", b.socket+"b", "--settled", "-w", patience.String())
}

func TestWaitForAKey(t *testing.T) {
	b := newBench(t)
	holder, in := b.startPiped("lock", "jobs/1")
	holder.prints("jobs/1")
	next, nextIn := b.startPiped("lock", "jobs/1")
	wantsComplaint(t, b.wants(75, "wait", "--free", "jobs/1", "-w", "0"), "the wait of 0s for jobs/1 to be free is over: held by "+b.node())
	text, lines := b.start("wait", "--free", "jobs/1", "-v"), b.start("wait", "--free", "jobs/1", "-o", "json")
	text.complains("waiting for jobs/1 to be free: held by")
	testwait.Until(t, "another waits", func() bool { return b.waiters("jobs/1") > 0 })
	in.Close()
	if code := holder.waitInTime(); code != 0 {
		t.Errorf("the holder ends with %d", code)
	}
	next.prints("jobs/1")
	// The key goes to the next holder, and isn't free.
	wantsComplaint(t, b.wants(75, "wait", "--free", "jobs/1", "-w", "0"), "held by")
	if lines.out.String() != "" {
		t.Errorf("the wait is over before the key is free: %s", lines.out.String())
	}
	nextIn.Close()
	for _, p := range []*process{text, lines} {
		if code := p.waitInTime(); code != 0 {
			t.Errorf("the wait ends with %d: %s", code, p.err.String())
		}
	}
	if l := objects[admin.Lock](t, lines.out.String()); len(l) != 1 || l[0].Key != "jobs/1" || len(l[0].Holders) != 0 {
		t.Errorf("the wait prints %+v", l)
	}
	if text.out.String() != "" {
		t.Errorf("a pipe gets %q", text.out.String())
	}
}

// TestWaitOutlastsARestart: the agent may start after the wait, and may restart meanwhile.
func TestWaitOutlastsARestart(t *testing.T) {
	alone := []string{"--expect", "1", "--max-ttl", brief} // the restarted agent is quiet for so long
	b := newBench(t, alone...)
	holder, _ := b.startPiped("lock", "k", "--ttl", "10s")
	holder.prints("k")
	w := b.start("wait", "--free", "k", "--timeout", "1m", "-v")
	w.complains("held by")
	b.agent.signal(syscall.SIGKILL)
	b.agent.waitInTime()
	w.complains("no node answers")
	wantsComplaint(t, b.wants(69, "wait", "--ready", "--timeout", "1ms"), "no node answers", "the node isn't up")
	wantsComplaint(t, b.wants(75, "wait", "--ready", "-w", "0"), "the wait of 0s for locks to be granted is over: no answer")
	b.startAgent(alone...)
	if code := w.waitInTime(); code != 0 {
		t.Errorf("the wait ends with %d: %s", code, w.err.String())
	}
	gone := b.start("wait", "--free", "k", "--settled")
	if code := gone.waitInTime(); code != 64 {
		t.Errorf("two conditions: %d", code)
	}
}

func TestWaitEndsBySignal(t *testing.T) {
	b := newBench(t)
	holder, _ := b.startPiped("lock", "k")
	holder.prints("k")
	w := b.start("wait", "--free", "k", "-v")
	w.complains("held by")
	w.signal(syscall.SIGTERM)
	if code := w.waitInTime(); code != 143 {
		t.Errorf("the wait ends with %d: %s", code, w.err.String())
	}
	// An agent that hangs neither ends a wait nor lengthens the wait indefinitely.
	b.agent.signal(syscall.SIGSTOP)
	wantsComplaint(t, b.wants(75, "wait", "--ready", "-w", "0"), "the node doesn't answer")
}
