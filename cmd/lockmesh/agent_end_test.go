//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

// marking is a script for a key's holder: a directory stands for the protected resource, and the
// mkdir of a second holder fails. When asked to end, the holder takes a moment to clean up.
const marking = `mkdir "$0" || { echo overlap; exit 9; }
trap 'sleep 0.3; rmdir "$0"; exit 0' TERM
echo ready
while :; do sleep 0.01; done`

// taking is a script for the next holder, and prints the time of the grant.
const taking = `mkdir "$0" 2>/dev/null || { echo overlap; exit 9; }; rmdir "$0"; date +%s%N`

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

// TestKeysAtTheEndOfAnAgent : however an agent ends, no other client gets a key while the agent's
// client counts on the key, and the key is free afterwards. A client that is notified of the end
// has a moment to finish; a client without notifications keeps the key until its time is over.
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
			until(t, "a client waits for "+key, func() bool { // or has the key already, on a busy machine
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
		if code := w.agent.waitInTime(); code != 0 && w.name != "SIGKILL" {
			t.Errorf("%s: the agent ends with %d: %s", w.name, code, w.agent.err.String())
		}
		if _, err := os.Stat(w.socket); err == nil != (w.name == "SIGKILL") {
			t.Errorf("%s: the socket: %v", w.name, err)
		}
	}
}

// TestKeysOfAnAgentAlone : an agent that is a mesh by itself remembers nothing. After a kill, or
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
		code  int
		waits bool // the next agent grants nothing at first
		run   *process
		mark  string
		keys  []*timed
		next  *process
	}
	all := []*world{
		{name: "killed", end: func(b *openBench) { b.agent.signal(sigKill) }, code: 128 + 9, waits: true},
		{name: "a short grace", args: []string{"--grace", "1ms"}, end: func(b *openBench) { b.agent.signal(sigTerm) }, waits: true},
		{name: "a short wait", end: func(b *openBench) { b.wants(75, "stop", "-w", "1ms") }, waits: true},
		{name: "a second signal", end: func(b *openBench) {
			b.agent.signal(sigTerm)
			b.agent.complains("until another signal")
			b.agent.signal(sigTerm)
		}, waits: true},
		{name: "a long grace", end: func(b *openBench) { b.agent.signal(sigTerm) }},
	}
	var worlds []*world
	for i, w := range all {
		if sampled.Case(i, 2) {
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
