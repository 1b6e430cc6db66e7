//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/freeport"
)

const (
	openToken    = "kQ7vXw2-token-hB9zLm4TgY8s"
	openPassword = "pR3nDc6-password-jF5aVu1WeK0x"
)

// openBench is an agent open to clients on all ways: its socket, HTTP over TCP, and Redis.
type openBench struct {
	*bench
	files      int
	http, resp string // the addresses over TCP
}

// newOpenBench starts such an agent, and waits until the agent grants locks. The parameter files
// limits the open files of the agent; zero stands for the limit of the system.
func newOpenBench(t *testing.T, files int, args ...string) *openBench {
	t.Helper()
	b := &openBench{bench: newRoom(t), files: files, http: freeport.Address(t), resp: freeport.Address(t)}
	b.endWell()
	b.launch(args...)
	b.answers()
	return b
}

// endWell leaves the file of an agent that has ended in good order, so that an agent alone doesn't
// wait for the clients of an agent before.
func (b *bench) endWell() {
	b.t.Helper()
	if err := os.WriteFile(endFile(b.socket), nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// wantsEndFile fails unless the file of a good end is there, or isn't.
func (b *bench) wantsEndFile(is bool) {
	b.t.Helper()
	if _, err := os.Lstat(endFile(b.socket)); is != (err == nil) {
		b.t.Errorf("the file of a good end: %v", err)
	}
}

// launch starts the agent.
func (b *openBench) launch(args ...string) {
	b.t.Helper()
	words := append([]string{"exec", "lockmesh", "agent", "--socket", b.socket, "--bind", "127.0.0.1:0", "--http", b.http, "--resp", b.resp}, args...)
	script := strings.Join(words, " ")
	if b.files > 0 {
		script = fmt.Sprintf("ulimit -n %d; %s", b.files, script)
	}
	b.agent = b.shell(script)
	b.agent.Env = append(b.agent.Env, "LOCKMESH_ADMIN_TOKEN="+openToken, "LOCKMESH_RESP_PASSWORD="+openPassword)
	b.agent.start()
}

// answers waits until the agent grants locks.
func (b *openBench) answers() {
	b.t.Helper()
	grants(b.t, b.socket)
}

// guest is a client's connection.
type guest struct {
	net.Conn
	r *bufio.Reader
}

// address returns the address of the agent's node for other nodes.
func (b *bench) address() string {
	b.t.Helper()
	return strings.Fields(strings.TrimPrefix(b.wants(0, "status").out.String(), "node "))[2]
}

// way is a way to the agent.
type way struct {
	name, network, address string
	greet                  func(g *guest) error // the first exchange; an error of a refused connection has the answer's text
	refusal                string               // a part of the answer to a client without a place
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
		line, err := g.command("AUTH " + openPassword)
		if err == nil && line != "+OK" {
			err = errors.New(line)
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

// guest makes a connection that must have a place.
func (b *openBench) guest(w *way) *guest {
	b.t.Helper()
	g, err := w.enter(b.t)
	if err != nil {
		b.t.Fatalf("%s: %v", w.name, err)
	}
	return g
}

// request sends a request of HTTP without a body, and returns the answer.
func (g *guest) request(line, headers string) (status int, body string, err error) {
	// A refused connection may be closed before the request is written: the answer is still
	// readable.
	_, _ = io.WriteString(g, line+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+openToken+"\r\n"+headers+"\r\n")
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
