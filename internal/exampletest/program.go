package exampletest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// Patience bounds every wait. Only a hanging program takes so long, even under the race detector on
// a busy machine.
const Patience = 60 * time.Second

// asProgram makes a test's binary run as the program itself.
const asProgram = "LOCKMESH_EXAMPLE_TEST_RUNS_MAIN"

// Main is called by TestMain: it runs the tests and checks for leaked goroutines; in a process
// started by Start, it runs the program.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		os.Exit(0)
	}
	sampled.Together(8)
	goleak.VerifyTestMain(m)
}

// Program is a process of the example under test. At the end of the test the process is killed if
// it is still running.
type Program struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended and all its output is here

	mu       sync.Mutex
	out, log bytes.Buffer
	news     chan struct{} // closed and replaced when something was printed
}

// Start starts the example with these arguments.
func Start(t *testing.T, args ...string) *Program {
	t.Helper()
	sampled.Waits(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The nodes of another test, started by this test's process or by another, must not join: a
	// port may be given to a node of one test after a node of the other.
	top, _, _ := strings.Cut(t.Name(), "/")
	secret := fmt.Sprintf("the secret of %s in process %d", top, os.Getpid())
	p := &Program{t: t, cmd: exec.Command(self, args...), ended: make(chan struct{}), news: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "LOCKMESH_SECRET="+secret)
	p.cmd.Stdout, p.cmd.Stderr = &sink{p, &p.out}, &sink{p, &p.log}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process; the cleanup waits for it
		_ = p.cmd.Wait() // the result is read from ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%q (%v) printed:\n%s\nand logged:\n%s", args, p.cmd.ProcessState, p.out.String(), p.log.String())
		}
	})
	return p
}

// sink receives the output of the process.
type sink struct {
	p    *Program
	text *bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	close(s.p.news)
	s.p.news = make(chan struct{})
	return s.text.Write(b)
}

// Out returns the output of the process until now.
func (p *Program) Out() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Await waits until the output of the process matches, and returns the match and its groups.
func (p *Program) Await(pattern string) []string {
	p.t.Helper()
	wanted := regexp.MustCompile(pattern)
	var found []string
	p.Until(pattern, func(out string) bool {
		found = wanted.FindStringSubmatch(out)
		return found != nil
	})
	return found
}

// Until waits until ok accepts the output of the process.
func (p *Program) Until(what string, ok func(out string) bool) {
	p.t.Helper()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for {
		p.mu.Lock()
		out, news := p.out.String(), p.news
		p.mu.Unlock()
		if ok(out) {
			return
		}
		select {
		case <-news:
		case <-p.ended:
			if !ok(p.Out()) {
				p.t.Fatalf("it has ended (%v); the test waited for: %s", p.cmd.ProcessState, what)
			}
			return
		case <-limit.C:
			p.t.Fatalf("waited %v for: %s", Patience, what)
		}
	}
}

// Kill ends the process at once, as a crash does, and returns when it has ended.
func (p *Program) Kill() {
	_ = p.cmd.Process.Kill() // an error means that the process has ended
	<-p.ended
}

// Stop ends the process as Ctrl-C does, and requires exit code 0. Windows has no signal for Ctrl-C,
// so there the process is killed.
func (p *Program) Stop() {
	p.t.Helper()
	if runtime.GOOS == "windows" {
		p.Kill()
		return
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	if code := p.Code(); code != 0 {
		p.t.Errorf("after an interrupt it ends with code %d, want 0", code)
	}
}

// Code waits until the process has ended by itself, and returns its exit code.
func (p *Program) Code() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(Patience):
		p.t.Fatalf("it has not ended within %v", Patience)
		return -1
	}
}

// Log returns the standard error of the process until now.
func (p *Program) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}
