package child

import (
	"fmt"
	"os/exec"
	"sync"
)

// Guard runs a program that knows nothing of commands, and ends it when its own input ends.
type Guard struct {
	mu  sync.Mutex
	cmd *exec.Cmd
}

// GuardArgs say what to run.
type GuardArgs struct {
	Path string
	Args []string
	Dir  string
}

// Run starts the program and returns its process number.
func (g *Guard) Run(a GuardArgs) (pid int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		return 0, fmt.Errorf("a program runs already")
	}
	cmd := exec.Command(a.Path, a.Args...)
	cmd.Dir = a.Dir
	dieTogether(cmd)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	g.cmd = cmd
	return cmd.Process.Pid, nil
}

// End kills the program, and waits until it has ended.
func (g *Guard) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
	}
}
