//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// openFiles returns how many files a process has open, as far as the system shows.
func (p *process) openFiles() int {
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Process.Pid))
	return len(files)
}

// TestACrowdOfConnections: clients that open as many connections as possible keep out neither the
// mesh nor each other. Clients without a place receive an error.
func TestACrowdOfConnections(t *testing.T) {
	const files = 200
	sampled.Waits(t)
	t.Parallel()
	began := time.Now()
	b := newOpenBench(t, files, "--name", "a", "--voters", "a", "--max-ttl", brief)
	mesh := b.address()
	run, in := b.startPiped("run", "victim", "--", "sh", "-c", "echo ready; read x; echo done")
	run.prints("ready")
	before := b.agent.openFiles()
	ways := b.ways()
	var crowd []*guest
	for _, w := range ways {
		for n := 0; ; n++ {
			g, err := w.enter(t)
			if err == nil && n < files {
				crowd = append(crowd, g)
				continue
			}
			if err == nil || !strings.Contains(err.Error(), w.refusal) {
				t.Fatalf("connection %d over %s: %v", n, w.name, err)
			}
			t.Logf("%s: %d", w.name, n)
			break
		}
	}
	// Each client with a connection is served. The keys end soon, since the agent waits for their
	// end.
	for _, g := range []*guest{crowd[0], crowd[len(crowd)-1]} {
		if g == crowd[0] {
			if status, body, err := g.request("PUT /v1/locks/own?ttl=1s", ""); err != nil || status != http.StatusOK {
				t.Errorf("%d %s %v", status, body, err)
			}
		} else if line, err := g.command("SET redis v NX PX 1000"); err != nil || line != "+OK" {
			t.Errorf("%s %v", line, err)
		}
	}
	// Other nodes can join: the crowd doesn't use up the connections between nodes.
	join := b.command("--join", mesh, "--voters", "a", "--max-ttl", brief, "run", "k", "--", "true")
	if code := join.run(); code != 0 {
		t.Errorf("a node that joins beside the crowd ends with %d: %s", code, join.err.String())
	}
	// A command that finds no place prints the reason.
	p := b.wants(69, "run", "k", "--", "true")
	if !strings.Contains(p.err.String(), "too many connections") {
		t.Errorf("without a place lockmesh says %s", p.err.String())
	}
	for _, g := range crowd {
		g.Close()
	}
	for _, w := range ways {
		testwait.Until(t, "a place over "+w.name, func() bool {
			g, err := w.enter(t)
			if g != nil {
				defer g.Close()
			}
			return err == nil
		})
	}
	testwait.Until(t, "the files are closed", func() bool { return b.agent.openFiles() <= before })
	if _, err := io.WriteString(in, "x\n"); err != nil {
		t.Error(err)
	}
	if code := run.waitInTime(); code != 0 || !strings.Contains(run.out.String(), "done") {
		t.Errorf("the lock held before ends with %d: %s", code, run.err.String())
	}
	b.agent.signal(sigTerm)
	if code := b.agent.waitInTime(); code != 0 {
		t.Errorf("the agent ends with %d: %s", code, b.agent.err.String())
	}
	most := len(ways) * int(2+time.Since(began)/time.Minute)
	if n := strings.Count(b.agent.err.String(), "too many connections"); n < len(ways) || n > most {
		t.Errorf("the log complains %d times about the crowd: %s", n, b.agent.err.String())
	}
}
