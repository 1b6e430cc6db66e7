package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// shutdownTimeout is how long a process may take to end by itself when asked to. A slower process
// is killed.
const shutdownTimeout = 10 * time.Second

// Process is a process started by this process.
type Process struct {
	Name       string
	cmd        *exec.Cmd
	stdin      io.WriteCloser
	ended      chan struct{}
	stderrTail *tail

	mu      sync.Mutex // held during a call
	replies chan reply
	broken  bool
}

// childVariable is set in the environment of a process started to obey commands.
const childVariable = "LOCKBENCH_CHILD"

// IsChild reports whether this process was started to obey commands.
func IsChild() bool { return os.Getenv(childVariable) != "" }

// Start runs this program again. The new process receives interrupts as well, and must leave the
// handling to its parent. The name is for human readers.
func Start(name string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(name, exec.Command(self, "-role="+name))
}

// StartProgram runs another program that reads commands as [Serve] does.
func StartProgram(name, path string, args ...string) (*Process, error) {
	return start(name, exec.Command(path, args...))
}

func start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, ended: make(chan struct{}), stderrTail: &tail{}, replies: make(chan reply, 1)}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = p.stderrTail
	cmd.Env = append(os.Environ(), childVariable+"=1")
	p.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.read(stdout)
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *Process) read(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var got reply
		if err := json.Unmarshal(line, &got); err != nil {
			_, _ = p.stderrTail.Write(line) // not an answer: output of some library
			continue
		}
		p.replies <- got
	}
}

// Pid returns the id of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Call sends a command, waits for the answer, and stores the answer in result, unless result is
// nil. If ctx ends first, further calls fail, since the answer may still come.
func (p *Process) Call(ctx context.Context, op string, args, result any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return fmt.Errorf("%s: %s: an earlier call has failed", p.Name, op)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	line, err := json.Marshal(request{Op: op, Args: raw})
	if err != nil {
		return err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		p.broken = true
		return p.exitError(op)
	}
	select {
	case got := <-p.replies:
		if got.Error != "" {
			return fmt.Errorf("%s: %s: %s", p.Name, op, got.Error)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(got.Result, result)
	case <-p.ended:
		p.broken = true
		return p.exitError(op)
	case <-ctx.Done():
		p.broken = true
		return fmt.Errorf("%s: %s: %w", p.Name, op, context.Cause(ctx))
	}
}

func (p *Process) exitError(op string) error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s: %s: the process has ended (%v); its last words: %s", p.Name, op, p.cmd.ProcessState, p.stderrTail)
	case <-time.After(shutdownTimeout):
		return fmt.Errorf("%s: %s: the process doesn't read; its last words: %s", p.Name, op, p.stderrTail)
	}
}

// Close asks the process to end, kills the process if necessary, and waits for its end. Further
// calls of Close do nothing.
func (p *Process) Close() error {
	err := p.stdin.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	select {
	case <-p.ended:
		return err
	case <-time.After(shutdownTimeout):
	}
	err = errors.Join(err, p.cmd.Process.Kill())
	<-p.ended
	return err
}

// tail keeps the last few kilobytes written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailMax = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailMax; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
