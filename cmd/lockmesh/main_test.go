//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// asCommand is the variable with which the test's program acts as the command itself.
const asCommand = "LOCKMESH_TEST_AS_COMMAND"

// asRoot is the variable with which a copy of the test's program, owned by root and with the bit
// for its owner's rights, becomes a process of root, as sudo does, and runs until its standard
// input ends.
const asRoot = "LOCKMESH_TEST_AS_ROOT"

func TestMain(m *testing.M) {
	if os.Getenv(asRoot) != "" {
		if err := syscall.Setreuid(0, 0); err != nil {
			panic(err)
		}
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("works as root")
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Println("has worked")
		return
	}
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "LOCKMESH_") {
			os.Unsetenv(name)
		}
	}
	sampled.Together(10)
	os.Exit(m.Run())
}

const (
	// calm is a maximum TTL for tests with locks that have to stay held, however busy the machine
	// is.
	calm = "30s"

	// brief is a maximum TTL for tests that wait for the end of a lease.
	brief = "10s"
)

// patience bounds each wait of a test. Only a hanging test waits so long.
const patience = time.Minute

// bench is an agent with a socket, and commands that use the agent.
type bench struct {
	t      *testing.T
	dir    string
	socket string
	agent  *process
}

// newBench starts an agent and waits until the agent answers. The agent is a mesh by itself, unless
// args configure another mesh.
func newBench(t *testing.T, args ...string) *bench {
	t.Helper()
	t.Parallel()
	b := newRoom(t)
	b.startAgent(args...)
	return b
}

// newRoom returns a bench without an agent.
func newRoom(t *testing.T) *bench {
	t.Helper()
	// Not t.TempDir: its path may be too long for a socket.
	dir, err := os.MkdirTemp("", "lm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &bench{t: t, dir: dir, socket: filepath.Join(dir, "s")}
}

func (b *bench) startAgent(args ...string) {
	b.t.Helper()
	if len(args) == 0 {
		args = []string{"--expect", "1", "--max-ttl", calm}
	}
	b.agent = b.start(append([]string{"agent", "--socket", b.socket, "--bind", "127.0.0.1:0"}, args...)...)
	b.t.Cleanup(func() { b.agent.signal(syscall.SIGCONT) }) // so that the agent can be ended
	grants(b.t, b.socket)
}

// grants waits until the agent with a socket grants locks. The test's own process asks: a new
// process for each question would take the processors from the agents.
func grants(t *testing.T, socket string) {
	t.Helper()
	c := newClient(t, socket)
	defer c.Close()
	testwait.Until(t, "the agent grants locks", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := c.Ready(ctx, patience)
		return err == nil
	})
}

// newClient returns a client of the agent with a socket.
func newClient(t *testing.T, socket string) *admin.Client {
	t.Helper()
	c, err := admin.NewClient(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// waiters returns the number of waiting requests for a key.
func (b *bench) waiters(key string) int {
	b.t.Helper()
	c := newClient(b.t, b.socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	l, err := c.Inspect(ctx, key)
	if err != nil {
		b.t.Fatal(err)
	}
	return len(l.Waiters)
}

// command returns a command line of lockmesh that calls the agent.
func (b *bench) command(args ...string) *process {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	return b.program(self, args...)
}

// program returns a program with lockmesh in its PATH.
func (b *bench) program(path string, args ...string) *process {
	p := &process{t: b.t, Cmd: exec.Command(path, args...)}
	p.Dir = b.dir
	p.Env = append(os.Environ(), asCommand+"=1", "LOCKMESH_ADDR="+b.socket, "PATH="+b.dir+":"+os.Getenv("PATH"))
	p.Stdout, p.Stderr = &p.out, &p.err
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell does with jobs
	return p
}

// shell returns a script of bash, in which lockmesh is a command.
func (b *bench) shell(script string) *process {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(b.dir, "lockmesh")); err != nil && !os.IsExist(err) {
		b.t.Fatal(err)
	}
	return b.program("bash", "-c", script)
}

func (b *bench) start(args ...string) *process {
	p := b.command(args...)
	p.start()
	return p
}

// wants runs a command line, and fails unless the command ends with a code.
func (b *bench) wants(code int, args ...string) *process {
	b.t.Helper()
	p := b.command(args...)
	if got := p.run(); got != code {
		b.t.Errorf("lockmesh %q ends with %d, not %d\n%s%s", args, got, code, p.out.String(), p.err.String())
	}
	return p
}

// process is a process of a test.
type process struct {
	t *testing.T
	*exec.Cmd
	out, err output
	once     sync.Once
	failure  error
}

// output is the output of a process.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start starts the process, which is killed when the test ends. If the test fails, the log shows
// the process's standard error.
func (p *process) start() {
	p.t.Helper()
	// A process that the command has left behind must not keep Wait from ending.
	p.WaitDelay = time.Second
	if err := p.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = p.Process.Kill()
		p.wait()
		if text := p.err.String(); p.t.Failed() && text != "" {
			p.t.Logf("%q says:\n%s", p.Args, text)
		}
	})
}

// wait waits for the end, and returns the exit code; 128 and the signal if the process died of a
// signal.
func (p *process) wait() int {
	p.once.Do(func() { p.failure = p.Wait() })
	if p.ProcessState == nil {
		return -1
	}
	if s, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return p.ProcessState.ExitCode()
}

func (p *process) run() int {
	p.t.Helper()
	p.start()
	return p.waitInTime()
}

// waitInTime is wait, and fails if the process doesn't end.
func (p *process) waitInTime() int {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = p.Process.Kill() })
	code := p.wait()
	if !stop() {
		p.t.Fatalf("%q doesn't end\n%s%s", p.Args, p.out.String(), p.err.String())
	}
	return code
}

func (p *process) signal(sig syscall.Signal) {
	if p.Process != nil {
		_ = p.Process.Signal(sig)
	}
}

// prints waits until the process has printed a text.
func (p *process) prints(text string) {
	p.t.Helper()
	testwait.Until(p.t, "the output "+text, func() bool { return strings.Contains(p.out.String(), text) })
}

// complains waits until the process has written a text to standard error.
func (p *process) complains(text string) {
	p.t.Helper()
	testwait.Until(p.t, "the complaint "+text, func() bool { return strings.Contains(p.err.String(), text) })
}
