//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	crowdToken    = "kQ7vXw2-token-hB9zLm4TgY8s"
	crowdPassword = "pR3nDc6-password-jF5aVu1WeK0x"
)

// openBench is an agent that clients reach by all ways: its socket, HTTP over TCP, and as a Redis.
type openBench struct {
	*bench
	http, resp string // the addresses over TCP
}

// newOpenBench starts such an agent, the only voter of its mesh, in which one may open so many
// files.
func newOpenBench(t *testing.T, files int, args ...string) *openBench {
	t.Helper()
	t.Parallel()
	dir, err := os.MkdirTemp("", "lm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &openBench{bench: &bench{t: t, dir: dir, socket: filepath.Join(dir, "s")}, http: freeAddress(t), resp: freeAddress(t)}
	b.startOpenAgent(files, args...)
	return b
}

// startOpenAgent starts the agent, and waits until it grants locks.
func (b *openBench) startOpenAgent(files int, args ...string) {
	b.t.Helper()
	words := append([]string{"exec", "lockmesh", "agent", "--socket", b.socket, "--bind", "127.0.0.1:0", "--name", "a", "--voters", "a",
		"--http", b.http, "--resp", b.resp}, args...)
	b.agent = b.shell(fmt.Sprintf("ulimit -n %d; %s", files, strings.Join(words, " ")))
	b.agent.Env = append(b.agent.Env, "LOCKMESH_ADMIN_TOKEN="+crowdToken, "LOCKMESH_RESP_PASSWORD="+crowdPassword)
	b.agent.start()
	until(b.t, "the agent grants locks", func() bool { return b.command("status").run() == 0 })
}

// guest is a client's connection.
type guest struct {
	net.Conn
	r *bufio.Reader
}

// way is one of the ways to the agent.
type way struct {
	name, network, address string
	greet                  func(g *guest) error // the first exchange; an error of a refused connection has the answer's text
	refusal                string               // a part of the answer without a place
}

// ways returns all ways to the agent.
func (b *openBench) ways() []*way {
	access := func(g *guest) error {
		status, body, err := g.request("GET /v1/access", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	}
	auth := func(g *guest) error {
		line, err := g.command("AUTH " + crowdPassword)
		if err == nil && line != "+OK" {
			err = fmt.Errorf("%s", line)
		}
		return err
	}
	return []*way{
		{"the socket", "unix", b.socket, access, "too many connections"},
		{"HTTP over TCP", "tcp", b.http, access, "too many connections"},
		{"RESP", "tcp", b.resp, auth, "max number of clients"},
	}
}

// enter makes a connection, and has the first exchange. The test closes the connection.
func (w *way) enter(t *testing.T) (*guest, error) {
	t.Helper()
	c, err := net.DialTimeout(w.network, w.address, patience)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	g := &guest{c, bufio.NewReader(c)}
	return g, w.greet(g)
}

// request sends a request of HTTP without a body, and returns the answer.
func (g *guest) request(line, headers string) (status int, body string, err error) {
	// A refused connection may be closed before the request is written: the answer is there.
	_, _ = io.WriteString(g, line+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+crowdToken+"\r\n"+headers+"\r\n")
	a, err := http.ReadResponse(g.r, nil)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	return a.StatusCode, string(data), err
}

// command sends a command of RESP as by hand, and returns the first line of the answer.
func (g *guest) command(line string) (string, error) {
	_, _ = io.WriteString(g, line+"\r\n")
	text, err := g.r.ReadString('\n')
	return strings.TrimSuffix(text, "\r\n"), err
}

// openFiles returns how many files the agent has open, as far as the system shows.
func (b *openBench) openFiles() int {
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.agent.Process.Pid))
	return len(files)
}

// TestACrowdOfConnections : clients that open as many connections as they can keep neither the mesh
// nor each other out. Those without a place are told so.
func TestACrowdOfConnections(t *testing.T) {
	const files = 200
	began := time.Now()
	b := newOpenBench(t, files, "--max-ttl", brief)
	mesh := strings.Fields(strings.TrimPrefix(b.wants(0, "status").out.String(), "node a at "))[0]
	run, in := b.startPiped("run", "victim", "--", "sh", "-c", "echo ready; read x; echo done")
	run.prints("ready")
	before := b.openFiles()
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
	// Whoever has a connection is served.
	for _, g := range []*guest{crowd[0], crowd[len(crowd)-1]} {
		if g == crowd[0] {
			if status, body, err := g.request("PUT /v1/locks/own?ttl=10s", ""); err != nil || status != http.StatusOK {
				t.Errorf("%d %s %v", status, body, err)
			}
		} else if line, err := g.command("SET redis v NX PX 10000"); err != nil || line != "+OK" {
			t.Errorf("%s %v", line, err)
		}
	}
	// Other nodes come in: the crowd doesn't take the node's own connections.
	join := b.command("--join", mesh, "--voters", "a", "--max-ttl", brief, "run", "k", "--", "true")
	if code := join.run(); code != 0 {
		t.Errorf("a node that joins beside the crowd ends with %d: %s", code, join.err.String())
	}
	// A command that finds no place says why.
	p := b.wants(69, "run", "k", "--", "true")
	if !strings.Contains(p.err.String(), "too many connections") {
		t.Errorf("without a place lockmesh says %s", p.err.String())
	}
	for _, g := range crowd {
		g.Close()
	}
	for _, w := range ways {
		until(t, "a place over "+w.name, func() bool {
			g, err := w.enter(t)
			if g != nil {
				defer g.Close()
			}
			return err == nil
		})
	}
	until(t, "the files are closed", func() bool { return b.openFiles() <= before })
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
