//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// objects reads lines of JSON.
func objects[T any](t *testing.T, text string) (all []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v T
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, v)
	}
	return all
}

func TestLooks(t *testing.T) {
	b := newBench(t)
	hostile := "a b\u202ec" // a key can't have control characters, and a value can
	p, _ := b.startPiped("lock", "jobs/1", hostile, "--value", "v\x1b]0;x\a", "--ttl", "20s")
	p.prints("jobs/1")
	waiting := b.start("run", "jobs/1", "--", "true")
	testwait.Until(t, "it waits", func() bool { return strings.Contains(b.wants(0, "inspect", "jobs/1").out.String(), "WAITER") })

	locks := objects[admin.Lock](t, b.wants(0, "ls", "-o", "json").out.String())
	if len(locks) != 2 || locks[0].Key != hostile || locks[1].Key != "jobs/1" || len(locks[1].Waiters) != 1 {
		t.Errorf("ls shows %+v", locks)
	}
	if n := len(objects[admin.Lock](t, b.wants(0, "ls", "-o", "json", "--limit", "1").out.String())); n != 1 {
		t.Errorf("ls --limit 1 shows %d keys", n)
	}
	if n := len(objects[admin.Lock](t, b.wants(0, "ls", "-o", "json", "jobs/").out.String())); n != 1 {
		t.Errorf("ls jobs/ shows %d keys", n)
	}
	lock := objects[admin.Lock](t, b.wants(0, "inspect", hostile, "-o", "json").out.String())[0]
	if string(lock.Holders[0].Value) != "v\x1b]0;x\a" {
		t.Errorf("the value is %q", lock.Holders[0].Value)
	}
	status := objects[admin.Status](t, b.wants(0, "status", "-o", "json").out.String())[0]
	if !status.Electorate.Ready || len(status.Held) != 2 {
		t.Errorf("the status is %+v", status)
	}
	if e := objects[admin.Electorate](t, b.wants(0, "electorate", "-o", "json").out.String())[0]; !e.Ready {
		t.Errorf("the electorate is %+v", e)
	}
	if m := objects[admin.Member](t, b.wants(0, "members", "-o", "json").out.String()); len(m) != 1 || m[0].Name != status.Name {
		t.Errorf("the members are %+v", m)
	}
	// No text has characters that would change a terminal.
	for _, args := range [][]string{{"ls"}, {"inspect", hostile}, {"inspect", "free"}, {"status"}, {"electorate"}, {"members"}} {
		text := b.wants(0, args...).out.String()
		if strings.ContainsAny(text, "\x1b\a\t\r\u202e") || !strings.HasSuffix(text, "\n") {
			t.Errorf("%q prints %q", args, text)
		}
	}
	for args, words := range map[string][]string{
		"ls":             {"KEY", "HOLDER", "jobs/1", "a b�c", "exclusive", " 1 "},
		"inspect jobs/1": {"jobs/1: held", "HOLDER", "WAITER", status.Name},
		"inspect free":   {"free: free"},
		"status":         {"locks can be granted: 1 of 1 voter counts, 1 needed", "reachable", "2 leases held by this node, 1 request waiting", "jobs/1"},
		"electorate":     {"version 1", status.Name},
		"members":        {status.Name, "alive"},
	} {
		text := b.wants(0, strings.Fields(args)...).out.String()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s doesn't print %q: %s", args, w, text)
			}
		}
	}
	waiting.signal(sigTerm)
}

// TestPermitsAreNumbered: the permits of a semaphore count from 1, as Lease.Slot does.
func TestPermitsAreNumbered(t *testing.T) {
	b := newBench(t)
	for range 2 {
		p, _ := b.startPiped("lock", "--permits", "2", "sem")
		p.prints("sem")
	}
	for _, verb := range []string{"inspect", "ls"} {
		text := b.wants(0, verb, "sem").out.String()
		if !strings.Contains(text, "permit 1 of 2") || !strings.Contains(text, "permit 2 of 2") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}

func TestWatch(t *testing.T) {
	b := newBench(t)
	text := b.start("watch", "jobs/")
	lines := b.start("watch", "-o", "json", "-k", "jobs/1")
	text.prints("synced")
	lines.prints("synced")
	b.wants(0, "run", "jobs/1", "--value", "mine", "--", "true")
	b.wants(0, "run", "other", "--", "true")
	b.wants(0, "run", "jobs/2", "--", "true")
	testwait.Until(t, "all events", func() bool { return strings.Count(text.out.String(), "released") == 2 })
	for _, w := range []string{"granted   jobs/1  by " + b.node(), "mine", "released  jobs/2"} {
		if !strings.Contains(text.out.String(), w) {
			t.Errorf("watch doesn't print %q: %s", w, text.out.String())
		}
	}
	if strings.Contains(text.out.String(), "other") {
		t.Errorf("watch prints another key: %s", text.out.String())
	}
	lines.prints("released")
	kinds := ""
	for _, e := range objects[admin.Event](t, lines.out.String()) {
		kinds += e.Kind + " "
		if time.Since(e.At).Abs() > 2*patience {
			t.Errorf("an event is dated %v: %+v", e.At, e)
		}
	}
	if kinds != "synced granted released " {
		t.Errorf("the events are %s", kinds)
	}
	text.signal(sigTerm)
	if code := text.waitInTime(); code != 143 {
		t.Errorf("watch ends with %d: %s", code, text.err.String())
	}
	// The end of the agent ends a watch, with an error.
	b.agent.signal(sigTerm)
	if code := lines.waitInTime(); code != 69 || lines.err.String() == "" {
		t.Errorf("watch ends with %d: %s", code, lines.err.String())
	}
}

func TestCompletion(t *testing.T) {
	b := newBench(t)
	p, _ := b.startPiped("lock", "jobs/1", "jobs/2")
	p.prints("jobs/2")
	for words, want := range map[string]string{
		"":                    "run lock lead ls inspect watch top status members electorate wait revoke evict drain stop leave recover agent doctor keygen rotate version completion",
		"l":                   "lock lead ls leave",
		"inspect jobs/":       "jobs/1 jobs/2",
		"-o json inspect j":   "jobs/1 jobs/2",
		"-o ":                 "text json",
		"completion ":         "bash zsh fish",
		"top --sort ":         "wait grants held name",
		"top jobs/":           "jobs/1 jobs/2",
		"evict --no":          "--node",
		"wait --free jobs/":   "jobs/1 jobs/2",
		"run -n jobs/1 jobs/": "jobs/1 jobs/2",
		"run k -- ls ":        "",
	} {
		args := append([]string{"internal-complete", "--"}, strings.Split(words, " ")...)
		got := strings.Join(strings.Fields(b.wants(0, args...).out.String()), " ")
		if got != want {
			t.Errorf("%q is completed to %q, not %q", words, got, want)
		}
	}
	s := b.shell(`set -e
source <(lockmesh completion bash)
COMP_LINE='lockmesh inspect jobs/' COMP_POINT=22 COMP_WORDS=(lockmesh inspect jobs/) COMP_CWORD=2
_lockmesh lockmesh jobs/ inspect
echo "${COMPREPLY[*]}"
COMP_LINE='lockmesh run k -- mkdi' COMP_POINT=22 COMP_WORDS=(lockmesh run k -- mkdi) COMP_CWORD=4
_lockmesh lockmesh mkdi --
echo "${COMPREPLY[*]}"`)
	if code := s.run(); code != 0 || !strings.HasPrefix(s.out.String(), "jobs/1 jobs/2\n") || !strings.Contains(s.out.String(), "mkdir") {
		t.Errorf("bash ends with %d: %s%s", code, s.out.String(), s.err.String())
	}
	for _, shell := range []string{"zsh", "fish"} {
		if text := b.wants(0, "completion", shell).out.String(); !strings.Contains(text, "internal-complete") {
			t.Errorf("%s: %s", shell, text)
		}
	}
}

// TestHelp: each verb has a help with an example.
func TestHelp(t *testing.T) {
	b := newBench(t)
	for verb := range strings.FieldsSeq(b.wants(0, "internal-complete", "--", "").out.String()) {
		text := b.wants(0, verb, "-h").out.String()
		if !strings.Contains(text, "Example") || !strings.Contains(text, "  lockmesh "+verb) && !strings.Contains(text, "lockmesh "+verb) {
			t.Errorf("%s -h has no example: %s", verb, text)
		}
		if usage, _, _ := strings.Cut(text, "\n"); strings.HasSuffix(usage, "[flags] -- COMMAND [ARG ...]") != (verb == "run" || verb == "lead") {
			t.Errorf("%s -h has the usage %s", verb, usage)
		}
	}
	if a, c := b.wants(0).out.String(), b.wants(0, "--help").out.String(); a != c || !strings.Contains(a, "Commands:") {
		t.Error("without arguments there is no help")
	}
	if key := strings.TrimSpace(b.wants(0, "keygen").out.String()); len(key) < 32 {
		t.Errorf("the secret is %q", key)
	}
	for _, word := range []string{"version", "--version", "-V"} {
		if v := b.wants(0, word).out.String(); !strings.Contains(v, "go1.") {
			t.Errorf("%s prints %q", word, v)
		}
	}
}

// TestLsOnATerminal: long lines of a table can't be read once they are wrapped; elsewhere nothing
// is cut.
func TestLsOnATerminal(t *testing.T) {
	b := newBench(t)
	value := strings.Repeat("long ", 60) + "end"
	lock, _ := b.startPiped("lock", "--value", value, "jobs/1")
	lock.prints("jobs/1")
	if text := b.wants(0, "ls").out.String(); !strings.Contains(text, value) {
		t.Errorf("ls cuts lines without a terminal: %s", text)
	}
	s := b.newScreen()
	s.types("lockmesh ls\n")
	s.shows("jobs/1", 1)
	s.shows("…", 1)
	if strings.Contains(s.text(), "end") {
		t.Errorf("a line isn't cut:\n%s", s.text())
	}
}
