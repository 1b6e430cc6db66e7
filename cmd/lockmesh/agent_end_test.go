//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// marking is a script for a key's holder, which writes its process id into a file. When asked to
// end, the holder takes a moment to clean up; on a busy machine it is killed meanwhile.
const marking = `echo $$ >"$0"
trap 'sleep 0.3; exit 0' TERM
echo ready
while :; do sleep 0.01; done`

// taking is a script for the next holder, and prints the time of the grant. The process of the
// holder before, if any, must have ended.
const taking = `if test -e "$0" && kill -0 "$(cat "$0")" 2>/dev/null; then echo overlap; exit 9; fi; date +%s%N`

// timed is a key that a client without notifications has acquired for a time through an agent.
type timed struct {
	key   string
	until time.Time // the client counts on the key until then
	next  *process  // waits for the key at another agent
}

const (
	// clientTTL is how long clients set their keys where a lost key does no harm to the test.
	clientTTL = 3 * time.Second

	// soon is a maximum TTL for such a test.
	soon = "4s"
)

// setKeys has clients acquire keys for a time: by HTTP, and with Redis commands. A client counts
// the time from before its request: by HTTP the time in the answer, with Redis commands the
// requested time less a hundredth for the rates of clocks.
func (b *openBench) setKeys(prefix string, ttl time.Duration) []*timed {
	b.t.Helper()
	byHTTP, byRESP := &timed{key: prefix + "-http"}, &timed{key: prefix + "-resp"}
	ways := b.ways()
	asked := time.Now()
	status, body, err := b.guest(ways[1]).request(fmt.Sprintf("PUT /v1/locks/%s?ttl=%v", byHTTP.key, ttl), "")
	var lease admin.Lease
	if err = errors.Join(err, json.Unmarshal([]byte(body), &lease)); err != nil || status != http.StatusOK {
		b.t.Fatal(status, body, err)
	}
	byHTTP.until = asked.Add(time.Duration(lease.LeftMS) * time.Millisecond)
	g := b.guest(ways[2])
	byRESP.until = time.Now().Add(ttl - ttl/100)
	if line, err := g.command(fmt.Sprintf("SET %s v NX PX %d", byRESP.key, ttl.Milliseconds())); err != nil || line != "+OK" {
		b.t.Fatal(line, err)
	}
	return []*timed{byHTTP, byRESP}
}

// check waits until the next holder has the key, and fails if that was too early.
func (c *timed) check(t *testing.T) {
	t.Helper()
	if code := c.next.waitInTime(); code != 0 {
		t.Errorf("%s: the next holder ends with %d: %s", c.key, code, c.next.err.String())
		return
	}
	at, err := strconv.ParseInt(strings.TrimSpace(c.next.out.String()), 10, 64)
	if err != nil {
		t.Errorf("%s: the next holder prints %s", c.key, c.next.out.String())
		return
	}
	if early := c.until.Sub(time.Unix(0, at)); early > 0 {
		t.Errorf("%s: another client got the key %v before the end of its time", c.key, early)
	}
}

// TestKeysAtTheEndOfAnAgent: however an agent ends, no other client gets a key while the agent's
// client counts on the key, and the key is free afterwards. A client that is notified of the end
// has a moment to finish; a client without notifications keeps the key until its time is over. An
// agent that hangs notifies no client: a run kills its command while the lease lasts.
func TestKeysAtTheEndOfAnAgent(t *testing.T) {
	needsProc(t)
	sampled.Waits(t)
	voter := newBench(t, "--name", "b", "--voters", "b", "--max-ttl", soon)
	mesh := voter.address()
	type world struct {
		*openBench
		name string
		end  func(b *openBench)
		run  *process // holds a key
		mark string   // the run's resource
		keys []*timed
		next *process // wants the run's key
	}
	worlds := []*world{
		{name: "SIGTERM", end: func(b *openBench) { b.agent.signal(sigTerm) }},
		{name: "SIGKILL", end: func(b *openBench) { b.agent.signal(sigKill) }},
		{name: "SIGSTOP", end: func(b *openBench) { b.agent.signal(syscall.SIGSTOP) }},
		{name: "stop", end: func(b *openBench) { b.command("stop").start() }},
		{name: "leave", end: func(b *openBench) { b.command("leave").start() }},
	}
	for _, w := range worlds {
		w.openBench = newOpenBench(t, 0, "--name", w.name, "--voters", "b", "--peers", mesh, "--max-ttl", soon)
		w.mark = filepath.Join(w.dir, "mark")
	}
	for _, w := range worlds {
		w.run = w.start("run", w.name, "--", "bash", "-c", marking, w.mark)
		w.run.prints("ready")
		w.keys = w.setKeys(w.name, clientTTL)
		w.next = voter.start("run", w.name, "--", "bash", "-c", taking, w.mark)
		for _, k := range w.keys {
			k.next = voter.start("run", k.key, "--", "bash", "-c", taking, filepath.Join(w.dir, k.key))
		}
		for _, next := range []*process{w.next, w.keys[0].next, w.keys[1].next} {
			key := next.Args[2]
			testwait.Until(t, "a client waits for "+key, func() bool { // or has the key already, on a busy machine
				return next.out.String() != "" || voter.waiters(key) > 0
			})
		}
		w.end(w.openBench)
	}
	for _, w := range worlds {
		if code := w.run.waitInTime(); code != 79 {
			t.Errorf("%s: the run ends with %d: %s%s", w.name, code, w.run.out.String(), w.run.err.String())
		}
		if code := w.next.waitInTime(); code != 0 {
			t.Errorf("%s: the next run ends with %d: %s%s", w.name, code, w.next.out.String(), w.next.err.String())
		}
		for _, k := range w.keys {
			k.check(t)
		}
		if w.name == "SIGSTOP" {
			w.agent.signal(syscall.SIGCONT)
			w.agent.signal(sigTerm)
		}
		if code := w.agent.waitInTime(); code != 0 && w.name != "SIGKILL" {
			t.Errorf("%s: the agent ends with %d: %s", w.name, code, w.agent.err.String())
		}
		if _, err := os.Stat(w.socket); err == nil != (w.name == "SIGKILL") {
			t.Errorf("%s: the socket: %v", w.name, err)
		}
	}
}

// stubborn is a script for a key's holder that goes on after SIGTERM, and writes the time of each
// of its steps.
const stubborn = `trap '' TERM
echo ready
while :; do date +%s%N >"$0.new" && mv "$0.new" "$0"; sleep 0.01; done`

// TestACommandThatGoesOnAtTheEndOfItsAgent: an agent that ends in good order keeps the key until
// the command has ended, however long a grace the command was given.
func TestACommandThatGoesOnAtTheEndOfItsAgent(t *testing.T) {
	needsProc(t)
	sampled.Waits(t)
	voter := newBench(t, "--name", "b", "--voters", "b", "--max-ttl", "6s")
	b := newOpenBench(t, 0, "--name", "a", "--voters", "b", "--peers", voter.address(), "--max-ttl", "6s")
	steps := filepath.Join(b.dir, "steps")
	run := b.start("run", "--grace", "1200ms", "k", "--", "bash", "-c", stubborn, steps)
	run.prints("ready")
	next := voter.start("run", "k", "--", "date", "+%s%N")
	testwait.Until(t, "a client waits for the key", func() bool { return voter.waiters("k") > 0 })
	b.agent.signal(sigTerm)
	if code := run.waitInTime(); code != 79 || !strings.Contains(run.err.String(), "the command was killed") {
		t.Errorf("the run ends with %d, and the command went on until it was killed: %s%s", code, run.out.String(), run.err.String())
	}
	if code := next.waitInTime(); code != 0 {
		t.Fatalf("the next run ends with %d: %s%s", code, next.out.String(), next.err.String())
	}
	text, err := os.ReadFile(steps)
	if err != nil {
		t.Fatal(err)
	}
	times := make([]int64, 2)
	for i, text := range []string{string(text), next.out.String()} {
		at, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		times[i] = at
	}
	last, granted := time.Unix(0, times[0]), time.Unix(0, times[1])
	if granted.Before(last) {
		t.Errorf("two holders: the next command began %v before the last step of the first", last.Sub(granted))
	}
}

// TestKeysOfAnAgentAlone: an agent that is a mesh by itself remembers nothing. After a kill, or
// after an end that left keys to clients, the restarted agent grants no key on which a client may
// count.
func TestKeysOfAnAgentAlone(t *testing.T) {
	needsProc(t)
	sampled.Waits(t)
	t.Parallel()
	const keysTTL = 8 * time.Second // longer than the ends that don't wait for the keys
	type world struct {
		*openBench
		name  string
		args  []string
		end   func(b *openBench)
		then  func(b *openBench) // happens before the next start; may be nil
		code  int
		waits bool // the next agent grants nothing at first
		run   *process
		mark  string
		keys  []*timed
		next  *process
	}
	kill := func(b *openBench) { b.agent.signal(sigKill) }
	all := []*world{
		{name: "killed", end: kill, code: 128 + 9, waits: true},
		{name: "a short grace", args: []string{"--grace", "1ms"}, end: func(b *openBench) { b.agent.signal(sigTerm) }, waits: true},
		{name: "a short wait", end: func(b *openBench) { b.wants(75, "stop", "-w", "1ms") }, waits: true},
		{name: "a second signal", end: func(b *openBench) {
			b.agent.signal(sigTerm)
			b.agent.complains("until another signal")
			b.agent.signal(sigTerm)
		}, waits: true},
		{name: "a long grace", end: func(b *openBench) { b.agent.signal(sigTerm) }, then: func(b *openBench) { b.wantsEndFile(true) }},
		// As by systemd, which removes a RuntimeDirectory, or by a reboot.
		{name: "killed, and the directory is made anew", end: kill, code: 128 + 9, waits: true, then: func(b *openBench) {
			b.wantsEndFile(false)
			if err := os.Remove(b.socket); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "killed, and the next ends while it is quiet", end: kill, code: 128 + 9, waits: true, then: func(b *openBench) {
			b.launch("--expect", "1", "--max-ttl", brief)
			b.agent.complains("the agent listens")
			b.agent.signal(sigTerm)
			if code := b.agent.waitInTime(); code != 0 {
				t.Errorf("the quiet agent ends with %d: %s", code, b.agent.err.String())
			}
			b.wantsEndFile(false)
		}},
	}
	var worlds []*world
	for i, w := range all {
		if sampled.Case(i, 2) || w.then != nil {
			worlds = append(worlds, w)
		}
	}
	const killed = "may have been killed" // part of the log line about the previous agent
	for _, w := range worlds {
		w.args = append(w.args, "--expect", "1", "--max-ttl", brief)
		w.openBench = newOpenBench(t, 0, w.args...)
		if strings.Contains(w.agent.err.String(), killed) {
			t.Errorf("%s: the first agent takes itself for a second one", w.name)
		}
		w.mark = filepath.Join(w.dir, "mark")
		w.run = w.start("run", "k", "--", "bash", "-c", marking, w.mark)
		w.run.prints("ready")
		w.keys = w.setKeys("k", keysTTL)
		w.end(w.openBench)
	}
	for _, w := range worlds {
		if code := w.agent.waitInTime(); code != w.code {
			t.Errorf("%s: the agent ends with %d: %s", w.name, code, w.agent.err.String())
		}
		if w.then != nil {
			w.then(w.openBench)
		}
		w.launch("--expect", "1", "--max-ttl", brief)
	}
	for _, w := range worlds {
		w.answers()
		if has := strings.Contains(w.agent.err.String(), killed); has != w.waits {
			t.Errorf("%s: the next agent knows of leases: %v", w.name, has)
		}
		w.next = w.start("run", "k", "--", "bash", "-c", taking, w.mark)
		for _, k := range w.keys {
			k.next = w.start("run", k.key, "--", "bash", "-c", taking, filepath.Join(w.dir, k.key))
		}
	}
	for _, w := range worlds {
		for _, k := range w.keys {
			k.check(t)
		}
		if code := w.next.waitInTime(); code != 0 {
			t.Errorf("%s: the next run ends with %d: %s%s", w.name, code, w.next.out.String(), w.next.err.String())
		}
		if code := w.run.waitInTime(); code != 79 {
			t.Errorf("%s: the run ends with %d: %s", w.name, code, w.run.err.String())
		}
		w.agent.signal(sigTerm)
		if code := w.agent.waitInTime(); code != 0 {
			t.Errorf("%s: the next agent ends with %d: %s", w.name, code, w.agent.err.String())
		}
		if _, err := os.Stat(w.socket); err == nil {
			t.Errorf("%s: the socket is left", w.name)
		}
	}
}

// TestAMinimumHoldOutlivesAnAgentAlone: a key that rests keeps its promise over an end in good
// order.
func TestAMinimumHoldOutlivesAnAgentAlone(t *testing.T) {
	for name, end := range map[string]func(b *openBench){
		"stop":     func(b *openBench) { b.wants(0, "stop") },
		"a signal": func(b *openBench) { b.agent.signal(sigTerm) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newOpenBench(t, 0, "--expect", "1", "--max-ttl", brief)
			c := newClient(t, b.socket)
			l, err := c.Lock(t.Context(), "job", admin.LockOptions{TTL: time.Second, MinHold: 7 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Unlock(t.Context(), l.ID); err != nil {
				t.Fatal(err)
			}
			end(b)
			if code := b.agent.waitInTime(); code != 0 {
				t.Fatalf("the agent ends with %d: %s", code, b.agent.err.String())
			}
			b.launch("--expect", "1", "--max-ttl", brief)
			b.agent.complains("has left keys that rest")
		})
	}
}

// TestAnAgentAloneNeedsAnEndInGoodOrder: where nothing tells of the agent before, an agent alone
// takes for granted that clients over TCP count on keys, and others only where systemd may have
// removed what was told.
func TestAnAgentAloneNeedsAnEndInGoodOrder(t *testing.T) {
	for _, c := range []struct {
		name          string
		http, runtime bool // over TCP; the directory is systemd's
		none          bool // no socket
		left, ended   bool // what the agent before has left: its socket, the file of a good end
		want          bool
	}{
		{name: "a first start for this user's processes"},
		{name: "a first start for clients over TCP", http: true, want: true},
		{name: "a first start by systemd", runtime: true, want: true},
		{name: "after a good end, over TCP", http: true, ended: true},
		{name: "after a good end, by systemd", runtime: true, ended: true},
		{name: "after a kill", left: true, want: true},
		{name: "after a kill of an agent that ignores the file", http: true, left: true, ended: true, want: true},
		{name: "without a socket", http: true, none: true, want: true},
	} {
		b := newRoom(t)
		t.Setenv("RUNTIME_DIRECTORY", "")
		if c.runtime {
			t.Setenv("RUNTIME_DIRECTORY", b.dir)
		}
		if c.left {
			s, err := admin.Listen(b.socket)
			if err == nil {
				err = s.Abandon()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if c.ended {
			b.endWell()
		}
		v := &agentVerb{Socket: b.socket}
		if c.http {
			v.HTTP, v.OpenReads = []string{"127.0.0.1:0"}, true
		}
		if c.none {
			v.Socket = noSocket
		}
		d, err := v.open()
		if err != nil {
			t.Fatal(err)
		}
		if got := d.mayFollow(); got != c.want {
			t.Errorf("%s: an agent before may have left keys: %v", c.name, got)
		}
		b.wantsEndFile(c.none && c.ended)
		d.close()
	}
}

// TestTheFileOfAGoodEndIsThisUsersOwn: in a directory that others can write, such as /tmp, another
// user could make the file, or a link in its place.
func TestTheFileOfAGoodEndIsThisUsersOwn(t *testing.T) {
	for name, forge := range map[string]func(path, other string) error{
		"a symbolic link": func(path, other string) error { return os.Symlink(other, path) },
		"a hard link":     func(path, other string) error { return os.Link(other, path) },
		"a directory":     func(path, _ string) error { return os.Mkdir(path, 0o700) },
	} {
		b := newRoom(t)
		other := filepath.Join(b.dir, "other")
		if err := errors.Join(os.WriteFile(other, nil, 0o600), forge(endFile(b.socket), other)); err != nil {
			t.Fatal(err)
		}
		if takeEndFile(b.socket) {
			t.Errorf("%s counts as the file of a good end", name)
		}
	}
}

// TestAFailedStartForgetsNoAgentBefore: the socket of a killed agent is still there after a start
// that failed, so that the next start knows of the agent.
func TestAFailedStartForgetsNoAgentBefore(t *testing.T) {
	b := newRoom(t)
	t.Setenv("RUNTIME_DIRECTORY", "")
	s, err := admin.Listen(b.socket)
	if err == nil {
		err = s.Abandon()
	}
	if err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if _, err := (&agentVerb{Socket: b.socket, Metrics: []string{busy.Addr().String()}}).open(); err == nil {
		t.Fatal("a port in use was opened")
	}
	d, err := (&agentVerb{Socket: b.socket}).open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if !d.mayFollow() {
		t.Error("the killed agent is forgotten")
	}
}
