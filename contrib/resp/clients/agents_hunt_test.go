//go:build hunt

package clients

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// agent is a process of the command agent.
type agent struct {
	t      *testing.T
	args   []string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string
	node   string // the node's address
	addr   string // for clients
	binary string
}

// startAgents starts three agents, the voters of a mesh, and waits until they
// serve.
func startAgents(t *testing.T, flags ...string) []*agent {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "agent")
	if out, err := exec.Command("go", "build", "-o", binary, "./agent").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := make([]*agent, 3)
	for i, name := range []string{"a", "b", "c"} {
		all[i] = &agent{t: t, binary: binary, args: append([]string{"-name", name, "-voters", "a,b,c"}, flags...)}
		if i > 0 {
			all[i].args = append(all[i].args, "-peers", all[0].node)
		}
		all[i].start()
		t.Cleanup(all[i].kill)
	}
	// The first agent, when restarted, finds the other agents at their addresses.
	all[0].args = append(all[0].args, "-peers", all[1].node+","+all[2].node)
	for _, a := range all {
		a.ready()
	}
	return all
}

// start starts the process, and waits until its node listens. A restarted process uses the same
// addresses.
func (a *agent) start() {
	a.t.Helper()
	args := a.args
	if a.node != "" {
		args = append(args[:len(args):len(args)], "-bind", a.node, "-listen", a.addr)
	}
	a.cmd = exec.Command(a.binary, args...)
	a.cmd.Stderr = os.Stderr
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.stdin, a.lines = stdin, make(chan string, 8)
	go func(lines chan string) {
		defer close(lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			lines <- s.Text()
		}
	}(a.lines)
	a.node = a.line("node ")
}

// ready waits until the process serves clients.
func (a *agent) ready() {
	a.t.Helper()
	a.addr = a.line("resp ")
}

func (a *agent) line(prefix string) string {
	a.t.Helper()
	select {
	case line := <-a.lines:
		if !strings.HasPrefix(line, prefix) {
			a.t.Fatalf("the agent says %q instead of %q", line, prefix)
		}
		return strings.TrimPrefix(line, prefix)
	case <-time.After(longTime):
		a.t.Fatalf("the agent doesn't say %q", prefix)
		return ""
	}
}

// kill ends the process as kill -9 does.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	_ = a.stdin.Close()
}

// memory returns the resident memory of the process in MiB.
func (a *agent) memory() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}
