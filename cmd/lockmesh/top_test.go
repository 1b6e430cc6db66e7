//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The control sequences by which a program takes over and restores a whole terminal.
const (
	enterScreen, leaveScreen = "\x1b[?1049h", "\x1b[?1049l"
	hideCursor, showCursor   = "\x1b[?25l", "\x1b[?25h"
)

// isRestored fails unless the last program to take the whole terminal has restored the terminal.
func (s *screen) isRestored() {
	s.t.Helper()
	text := s.text()
	if strings.LastIndex(text, leaveScreen) < strings.LastIndex(text, enterScreen) {
		s.t.Errorf("the screen isn't given back: %q", text)
	}
	if strings.LastIndex(text, showCursor) < strings.LastIndex(text, hideCursor) {
		s.t.Errorf("the cursor stays hidden: %q", text)
	}
}

// withTop types a command line to compare the modes of the terminal before and after, and to show
// the code.
func (s *screen) withTop(command string) {
	s.t.Helper()
	s.types(`modes=$(stty -g); ` + command + `; code=$?; test "$modes" = "$(stty -g)" && echo modes ke""pt, code $((code+1000))` + "\n")
}

// TestTop: the screen shows an acquired key, and goes without a trace.
func TestTop(t *testing.T) {
	b := newBench(t)
	holder, _ := b.startPiped("lock", "jobs/1", "--value", "10.0.0.7:8080")
	holder.prints("jobs/1")
	s := b.newScreen()
	for i, quit := range []string{"q", ctrlC} {
		s.withTop("lockmesh top")
		s.shows("\x1b[32mlocks can be granted", i+1)
		s.shows("10.0.0.7:8080", i+1)
		other, in := b.startPiped("lock", "other"+strconv.Itoa(i))
		other.prints("other")
		s.shows("other"+strconv.Itoa(i), 1)
		in.Close()
		other.waitInTime()
		s.types(quit)
		s.shows("modes kept, code 1000", i+1)
		s.isRestored()
	}
	s.withTop("NO_COLOR=1 lockmesh top --no-grants jobs/")
	s.shows("10.0.0.7:8080", 3)
	s.types("q")
	s.shows("modes kept, code 1000", 3)
	if n := strings.Count(s.text(), "\x1b[32m"+"locks can be granted"); n != 2 {
		t.Errorf("%d times colours: %q", n, s.text())
	}
}

// TestTopDetail: enter shows a key, and the keyboard goes through the pages.
func TestTopDetail(t *testing.T) {
	b := newBench(t)
	holder, _ := b.startPiped("lock", "jobs/1", "--value", "held-value")
	holder.prints("jobs/1")
	waiting := b.start("run", "jobs/1", "--value", "waiting-value", "--", "true")
	s := b.newScreen()
	s.withTop("lockmesh top --every 250ms")
	s.shows("> jobs/1", 1)
	s.types("\r")
	s.shows("waiting-value", 1)
	s.types("\x1b")
	s.shows("held-value", 3) // in the table, in the detail, and in the table again
	s.types("?")
	s.shows("--no-grants", 1)
	s.types("?q")
	s.shows("modes kept, code 1000", 1)
	waiting.signal(sigTerm)
}

// TestTopEndsBySignal: the terminal is left as before.
func TestTopEndsBySignal(t *testing.T) {
	b := newBench(t)
	s := b.newScreen()
	s.withTop(`bash -c 'echo $$ > pid; exec lockmesh top'`)
	s.shows("locks can be granted", 1)
	text, err := os.ReadFile(filepath.Join(b.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.shows("modes kept, code 1143", 1)
	s.isRestored()
}

// TestTopStops: Ctrl-Z gives the terminal back to the shell, and fg shows the screen again.
func TestTopStops(t *testing.T) {
	b := newBench(t)
	s := b.newScreen()
	s.types("lockmesh top\n")
	s.shows("locks can be granted", 1)
	s.types(ctrlZ)
	s.shows("Stopped", 1)
	s.isRestored()
	s.types("fg\n")
	s.shows(enterScreen, 2)
	s.shows("locks can be granted", 2)
	s.types("q")
	s.shows(leaveScreen, 2)
	s.types("echo code $(($?+1000))\n")
	s.shows("code 1000", 1)
	s.isRestored()
}

// TestTopOutlastsItsNode: the screen shows that the node is gone, and goes on when the node is
// back.
func TestTopOutlastsItsNode(t *testing.T) {
	b := newBench(t)
	s := b.newScreen()
	s.withTop("lockmesh top")
	s.shows("locks can be granted", 1)
	b.agent.signal(sigTerm)
	b.agent.waitInTime()
	s.shows("NO ANSWER", 1)
	b.startAgent()
	holder, _ := b.startPiped("lock", "again")
	holder.prints("again")
	s.shows("again", 1)
	s.types("q")
	s.shows("modes kept, code 1000", 1)
}

// TestTopRefuses: errors come before the terminal changes.
func TestTopRefuses(t *testing.T) {
	b := newBench(t)
	for args, want := range map[string]string{
		"top":                            "lockmesh status, ls and watch need none",
		"top --every 1ms":                "is shorter than 250ms",
		"top --sort grants --no-grants":  "leave out --no-grants",
		"top --sort size":                "must be one of",
		"top -o json":                    "has no JSON",
		"top --every 1s --sort held a b": "unexpected argument b",
	} {
		p := b.wants(exitUsage, strings.Fields(args)...)
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("%s: %s", args, p.err.String())
		}
	}
	s := b.newScreen()
	for i, c := range []struct{ command, want, code string }{
		{"TERM=dumb lockmesh top", "TERM is dumb", "1064"},
		{"lockmesh top -v", "would write into the screen", "1064"},
		{"lockmesh top -a ./none", "start an agent there", "1069"},
		{"lockmesh top < /dev/null", "needs a terminal", "1064"},
	} {
		s.withTop(c.command)
		s.shows("modes kept, code "+c.code, strings.Count("1064 1064 1069 1064"[:5*i+4], c.code))
		s.shows(c.want, 1)
	}
	if strings.Contains(s.text(), enterScreen) {
		t.Errorf("the terminal has changed: %q", s.text())
	}
}
