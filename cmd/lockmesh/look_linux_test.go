package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestTheReaderOfEventsIsGone: "lockmesh watch | head -1" ends with head, and not with the next
// event.
func TestTheReaderOfEventsIsGone(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{{"watch"}, {"watch", "-o", "json"}, {"electorate", "--watch"}} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := b.command(args...)
		p.Stdout = write
		p.start()
		write.Close()
		if _, err := read.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		read.Close()
		if code := p.waitInTime(); code != exitSignal+int(syscall.SIGPIPE) || p.err.String() != "" {
			t.Errorf("%q ends with %d, and says %q", args, code, p.err.String())
		}
	}
}

// TestOutputThatCannotBeWritten: a verb fails if its output is lost.
func TestOutputThatCannotBeWritten(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{
		{"ls"}, {"members"}, {"status"}, {"electorate"}, {"inspect", "k"}, {"version"}, {"members", "-o", "json"}, {"rotate"},
		{"electorate", "--watch"}, {"doctor", "--expect", "1", "--bind", "127.0.0.1:0"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := b.command(args...)
		p.Stdout = full
		code := p.run()
		full.Close()
		if code != 1 || !strings.Contains(p.err.String(), "no space left") {
			t.Errorf("%q ends with %d, and says %q", args, code, p.err.String())
		}
	}
}

// TestAHungAgentIsTold: the text names the flag that sets the limit.
func TestAHungAgentIsTold(t *testing.T) {
	b := newBench(t)
	b.agent.signal(syscall.SIGSTOP)
	if p := b.wants(69, "status", "--timeout", "100ms"); !strings.Contains(p.err.String(), "it took longer than --timeout") {
		t.Errorf("the complaint is %q", p.err.String())
	}
}
