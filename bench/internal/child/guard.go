package child

import (
	"fmt"
	"os/exec"
	"sync"
)

// Guard runs a program that doesn't read commands, and ends the program when this process's own
// input ends.
type Guard struct {
	mu  sync.Mutex
	cmd *exec.Cmd
}

// GuardArgs describe the program to run.
type GuardArgs struct {
	Path string
	Args []string
	Dir  string
}

// Run starts the program and returns its process id.
func (g *Guard) Run(a GuardArgs) (pid int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		return 0, fmt.Errorf("a program runs already")
	}
	cmd := exec.Command(a.Path, a.Args...)
	cmd.Dir = a.Dir
	killWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	g.cmd = cmd
	return cmd.Process.Pid, nil
}

// End kills the program, and waits until the program has ended.
func (g *Guard) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
	}
}
