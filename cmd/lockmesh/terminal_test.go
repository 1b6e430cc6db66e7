//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// screen is a terminal with an interactive shell, as a user has.
type screen struct {
	t     *testing.T
	tty   *os.File
	mu    sync.Mutex
	shown bytes.Buffer
}

// newScreen starts bash in a terminal, with job control.
func (b *bench) newScreen() *screen {
	b.t.Helper()
	return b.newScreenOf("xterm", "bash", "--norc", "--noprofile", "-i")
}

// newScreenOf starts a shell in a terminal of a type.
func (b *bench) newScreenOf(terminal, shell string, args ...string) *screen {
	b.t.Helper()
	p := b.shell("")
	p.Cmd.Path, p.Err = exec.LookPath(shell)
	p.Args = append([]string{shell}, args...)
	p.Env = append(p.Env, "PS1=$ ", "TERM="+terminal, "HISTFILE=/dev/null", "HOME="+b.dir)
	p.Stdout, p.Stderr, p.SysProcAttr = nil, nil, nil
	tty, err := pty.StartWithAttrs(p.Cmd, &pty.Winsize{Rows: 24, Cols: 200}, &syscall.SysProcAttr{Setsid: true, Setctty: true})
	if err != nil {
		b.t.Fatal(err)
	}
	s := &screen{t: b.t, tty: tty}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(s, tty) // ends with the terminal
	}()
	b.t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		tty.Close()
		<-read
	})
	return s
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.Write(p)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// types sends keys.
func (s *screen) types(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.tty, keys); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits until the terminal has shown a text n times.
func (s *screen) shows(text string, n int) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the screen: %q", s.text())
		}
	}()
	testwait.Until(s.t, "the terminal shows "+text, func() bool { return strings.Count(s.text(), text) >= n })
}

const ctrlC, ctrlZ = "\x03", "\x1a"

// TestCtrlC: a script ends with the command, as without lockmesh, whether the command has read
// from the terminal or not.
func TestCtrlC(t *testing.T) {
	b := newBench(t)
	s := b.newScreen()
	for i, command := range []string{
		`sh -c 'echo be""gun; exec sleep 1000'`,
		`sh -c 'read x; echo be""gun; exec sleep 1000'`,
	} {
		s.types("bash -c \"lockmesh run k -- " + strings.ReplaceAll(command, `"`, `\"`) + "; echo not rea\"\"ched\"\n")
		if i == 1 {
			s.types("\n")
		}
		s.shows("begun", i+1)
		s.types(ctrlC)
		s.shows("^C", i+1)
		s.types("echo code $(($?+1000))\n")
		s.shows("code 1130", i+1)
	}
	if strings.Contains(s.text(), "not reached") {
		t.Errorf("the script went on: %q", s.text())
	}
	b.wants(0, "run", "-n", "k", "--", "true")
}

// TestCtrlCWhileWaiting: the terminal shows the holder of the key, and Ctrl-C ends the script.
func TestCtrlCWhileWaiting(t *testing.T) {
	b := newBench(t)
	holder, _ := b.startPiped("run", "k", "--", "sh", "-c", "echo runs; read x")
	holder.prints("runs")
	s := b.newScreen()
	s.types(`bash -c "lockmesh run k -- true; echo not rea""ched"` + "\n")
	s.shows("waiting for k for", 1)
	s.shows("held by "+b.node(), 1)
	s.types(ctrlC)
	s.shows("^C", 1)
	s.types("echo code $(($?+1000))\n")
	s.shows("code 1130", 1)
	if strings.Contains(s.text(), "not reached") {
		t.Errorf("the script went on: %q", s.text())
	}
}

// TestASilentAgentOnATerminal: a wait without an end shows that the node doesn't answer, and who
// holds the key once the node answers again.
func TestASilentAgentOnATerminal(t *testing.T) {
	b := newBench(t)
	holder, _ := b.startPiped("lock", "k")
	holder.prints("k")
	b.agent.signal(syscall.SIGSTOP)
	s := b.newScreen()
	s.types("lockmesh run --timeout 100ms k -- true\n")
	s.shows("waiting for k for", 1)
	s.shows("the node doesn't answer", 1)
	b.agent.signal(syscall.SIGCONT)
	s.shows("held by "+b.node(), 1)
	s.types(ctrlC)
	s.shows("^C", 1)
}

// TestCtrlZ: fg and bg work, whether the command has read from the terminal or not.
func TestCtrlZ(t *testing.T) {
	b := newBench(t)
	s := b.newScreen()
	s.types(`lockmesh run k -- sh -c 'trap "echo continu""ed" CONT; echo be""gun; while ! test -e go; do sleep 0.01; done; trap - CONT; read x; echo "got $x"; read y; echo "got $y"'` + "\n")
	s.shows("begun", 1)
	for i := range 2 {
		s.types(ctrlZ)
		s.shows("Stopped", i+1)
		s.types("fg\n")
		s.shows("\rlockmesh run k --", i+1)
		s.shows("continued", i+1) // a key typed sooner is for bash, or is forgotten
	}
	if err := os.WriteFile(b.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.types("one\n")
	s.shows("got one", 1)
	s.types(ctrlZ)
	s.shows("Stopped", 3)
	s.types("fg\n")
	s.shows("\rlockmesh run k --", 3)
	s.types("two\n")
	s.shows("got two", 1)
	s.types("echo code $(($?+1000))\n")
	s.shows("code 1000", 1)
}

// TestNestedRunsOnATerminal: the command of a run within a run gets the terminal, and Ctrl-Z stops
// all of them, and fg continues all.
func TestNestedRunsOnATerminal(t *testing.T) {
	b := newBench(t)
	s := b.newScreen()
	s.types(`lockmesh run a -- lockmesh run b -- sh -c 'for i in 1 2 3; do read x; echo "got $x"; done'` + "\n")
	s.types("one\n")
	s.shows("got one", 1)
	for i, line := range []string{"two", "three"} {
		s.types(ctrlZ)
		s.shows("Stopped", i+1)
		s.types("fg\n")
		s.shows("\rlockmesh run a --", i+1)
		s.types(line + "\n")
		s.shows("got "+line, 1) // a key typed sooner is for bash, or is forgotten
	}
	s.types("echo code $(($?+1000))\n")
	s.shows("code 1000", 1)
	s.types("lockmesh run a -- lockmesh run b -- sh -c 'read x; echo be\"\"gun; exec sleep 1000'\n\n")
	s.shows("begun", 1)
	s.types(ctrlC)
	s.shows("^C", 1)
	s.types("echo code $(($?+1000))\n")
	s.shows("code 1130", 1)
	s.types("lockmesh run a -- sh -c 'lockmesh run b -- sh -c \"read x; echo got \\$x\"; :'\n")
	s.types("between\n")
	s.shows("got between", 1) // with a shell between the two
	s.types("echo code $(($?+1000))\n")
	s.shows("code 1000", 2)
	b.wants(0, "run", "-n", "a", "b", "--", "true")
}

// TestColors: a terminal gets colours unless the user turns colours off.
func TestColors(t *testing.T) {
	b := newBench(t)
	s := b.newScreen()
	s.types("lockmesh status; echo the e''nd\n")
	s.shows("the end", 1)
	if !strings.Contains(s.text(), "\x1b[32mlocks can be granted\x1b[0m") {
		t.Errorf("no colours: %q", s.text())
	}
	s.types("NO_COLOR=1 lockmesh status; echo the e''nd\n")
	s.shows("the end", 2)
	if n := strings.Count(s.text(), "\x1b[32mlocks"); n != 1 {
		t.Errorf("%d times colours: %q", n, s.text())
	}
}

// TestWaitOnATerminal: a terminal shows the reason of the wait, and the line goes when the wait is
// over.
func TestWaitOnATerminal(t *testing.T) {
	b := newBench(t)
	holder, in := b.startPiped("lock", "k")
	holder.prints("k")
	s := b.newScreen()
	s.types("lockmesh wait --free k; echo code $(($?+1000))\n")
	s.shows("waiting for k to be free for", 1)
	s.shows("held by "+b.node(), 1)
	in.Close()
	s.shows("code 1000", 1)
	if !strings.Contains(s.text(), clearLine+"\x1b[32mk is free\x1b[0m") {
		t.Errorf("the screen: %q", s.text())
	}
}

// TestAWaitingLineFitsTheTerminal: a line that wraps can't be cleared, and a wide character takes
// two cells.
func TestAWaitingLineFitsTheTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"waiting for k":          "waiting for k",
		"waiting for a long key": "waiting for a long…",
		"待っています、キーはジョブです。": "待っています、キー…",
	} {
		master, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := pty.Setsize(tty, &pty.Winsize{Rows: 5, Cols: 20}); err != nil {
			t.Fatal(err)
		}
		(&globals{streams: &streams{err: tty}}).showLine(text)
		tty.Close()
		got, _ := io.ReadAll(master) // ends with an error, since the terminal is closed
		master.Close()
		if string(got) != clearLine+want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}
