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

// goodbyeTime is how long a process has to end by itself when it is told to. What takes longer is killed.
const goodbyeTime = 10 * time.Second

// Process is one process that this one has started.
type Process struct {
	Name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}
	stuck *tail

	mu      sync.Mutex // held during a call
	replies chan reply
	broken  bool
}

// mark is set in the environment of a process that is to obey commands.
const mark = "LOCKBENCH_CHILD"

// IsChild reports whether this process was started to obey commands.
func IsChild() bool { return os.Getenv(mark) != "" }

// Start runs this program again. It hears of an interrupt as this one does, and must leave it to this one. The name is for people.
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
	p := &Process{Name: name, cmd: cmd, ended: make(chan struct{}), stuck: &tail{}, replies: make(chan reply, 1)}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = p.stuck
	cmd.Env = append(os.Environ(), mark+"=1")
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
			_, _ = p.stuck.Write(line) // not an answer: some library's word
			continue
		}
		p.replies <- got
	}
}

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Call sends a command, waits for the answer, and puts it into result, unless that is nil. When ctx ends first the process can't be called any more, since
// the answer may still come.
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
		return p.dead(op)
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
		return p.dead(op)
	case <-ctx.Done():
		p.broken = true
		return fmt.Errorf("%s: %s: %w", p.Name, op, context.Cause(ctx))
	}
}

func (p *Process) dead(op string) error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s: %s: the process has ended (%v); its last words: %s", p.Name, op, p.cmd.ProcessState, p.stuck)
	case <-time.After(goodbyeTime):
		return fmt.Errorf("%s: %s: the process doesn't read; its last words: %s", p.Name, op, p.stuck)
	}
}

// Close has the process end, kills it if it doesn't, and waits until it has ended. Further calls do nothing.
func (p *Process) Close() error {
	err := p.stdin.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	select {
	case <-p.ended:
		return err
	case <-time.After(goodbyeTime):
	}
	err = errors.Join(err, p.cmd.Process.Kill())
	<-p.ended
	return err
}

// tail keeps the end of what is written to it.
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
