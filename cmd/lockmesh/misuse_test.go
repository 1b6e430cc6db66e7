//go:build unix

package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// auth is the header with the token, for requests written by hand.
const auth = "Host: localhost\r\nAuthorization: Bearer " + openToken + "\r\n"

// pour writes a piece again and again, until the agent breaks the connection off, and fails if the
// agent has read 64 MiB.
func (g *guest) pour(t *testing.T, piece string) {
	t.Helper()
	const most = 64 << 20
	for n := 0; n < most; n += len(piece) {
		if _, err := io.WriteString(g, piece); err != nil {
			return
		}
	}
	t.Errorf("the agent has taken %d MiB of %.20q", most>>20, piece)
}

// watched is an agent with a client and a lock that must stay held, whatever other clients do.
type watched struct {
	*openBench
	run    *process
	in     io.WriteCloser
	before int // open files
}

// watch acquires the lock.
func (b *openBench) watch() *watched {
	b.t.Helper()
	run, in := b.startPiped("run", "victim", "--", "sh", "-c", "echo ready; read x; echo done")
	run.prints("ready")
	return &watched{b, run, in, b.agent.openFiles()}
}

// check fails unless the lock is still held, other clients are served, and all files opened for the
// other clients are closed.
func (w *watched) check() {
	w.t.Helper()
	w.wants(0, "run", "other", "--", "true")
	testwait.Until(w.t, "the files are closed", func() bool { return w.agent.openFiles() <= w.before })
	if _, err := io.WriteString(w.in, "x\n"); err != nil {
		w.t.Error(err)
	}
	if code := w.run.waitInTime(); code != 0 || !strings.Contains(w.run.out.String(), "done") {
		w.t.Errorf("the lock held before ends with %d: %s", code, w.run.err.String())
	}
}

// TestRequestsWithoutEnd: bodies, headers and lengths without end are refused on all ways to the
// agent.
func TestRequestsWithoutEnd(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t, 0, "--expect", "1", "--max-ttl", calm)
	w := b.watch()
	ways := b.ways()
	for _, way := range ways[:2] {
		g := b.guest(way)
		_, _ = io.WriteString(g, "POST /v1/locks/k/revoke HTTP/1.1\r\n"+auth+"Transfer-Encoding: chunked\r\n\r\n")
		g.pour(t, "1000\r\n"+strings.Repeat(" ", 0x1000)+"\r\n")
		if a, err := http.ReadResponse(g.r, nil); err == nil && a.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: a body without end is answered %s", way.name, a.Status)
		}
		g.Close()
		for _, endless := range []string{"X: " + strings.Repeat("x", 1<<10) + "\r\n", strings.Repeat("x", 1<<10)} {
			g = b.guest(way)
			_, _ = io.WriteString(g, "GET /v1/status HTTP/1.1\r\n"+auth)
			g.pour(t, endless)
			if a, err := http.ReadResponse(g.r, nil); err == nil && a.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s: a header without end is answered %s", way.name, a.Status)
			}
			g.Close()
		}
	}
	resp := ways[2]
	for _, text := range []string{
		"*9223372036854775807\r\n", "*1\r\n$9223372036854775807\r\n", "*1\r\n$-5\r\n", "*99999999999999999999999\r\n",
		"*1025\r\n", "*1\r\n$65537\r\n", "*1\r\n:1\r\n", strings.Repeat("x", 2<<10),
	} {
		g := b.guest(resp)
		line, err := g.command(text)
		if err != nil || !strings.HasPrefix(line, "-ERR Protocol error") {
			t.Errorf("%.40q is answered %q, %v", text, line, err)
		}
		if _, err := g.r.ReadByte(); err == nil {
			t.Errorf("%.40q: the connection goes on", text)
		}
		g.Close()
	}
	w.check()
}

// TestClientsThatVanish: when a waiting client vanishes, nothing is left of the client, and a key
// held by the client is free as documented.
func TestClientsThatVanish(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t, 0, "--expect", "1", "--max-ttl", calm)
	w := b.watch()
	ways := b.ways()
	for _, way := range ways[:2] {
		for _, line := range []string{
			"PUT /v1/locks/victim?wait=1h", "PUT /v1/hold/victim?wait=1h", "PUT /v1/locks/victim?wait=1h&mode=shared",
		} {
			g := b.guest(way)
			_, _ = io.WriteString(g, line+" HTTP/1.1\r\n"+auth+"\r\n")
			testwait.Until(t, "it waits", func() bool { return b.waiters("victim") == 1 })
			g.Close()
			testwait.Until(t, way.name+" "+line+": nothing waits", func() bool { return b.waiters("victim") == 0 })
		}
		for _, part := range []string{
			"POST /v1/locks/victim/revoke HTTP/1.1\r\n" + auth + "Content-Length: 1000\r\n\r\n{", "PUT /v1/hold/vic", "GET /v1/watch HTTP/1.1\r\n" + auth + "\r\n",
			"GET /v1/ready?wait=1m HTTP/1.1\r\n" + auth + "\r\n",
		} {
			g := b.guest(way)
			_, _ = io.WriteString(g, part)
			g.Close()
		}
		// A hold is free at once, a lease when its time is over.
		g := b.guest(way)
		_, _ = io.WriteString(g, "PUT /v1/hold/held HTTP/1.1\r\n"+auth+"\r\n")
		if a, err := http.ReadResponse(g.r, nil); err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", a, err)
		}
		g.Close()
		b.wants(0, "run", "held", "--", "true")
	}
	g := b.guest(ways[1])
	if status, body, err := g.request("PUT /v1/locks/timed?ttl=30s", ""); err != nil || status != http.StatusOK {
		t.Fatal(status, body, err)
	}
	g.Close()
	r := b.guest(ways[2])
	if line, err := r.command("SET set v NX PX 30000"); err != nil || line != "+OK" {
		t.Fatal(line, err)
	}
	r.Close()
	for _, key := range []string{"timed", "set"} {
		b.wants(75, "run", "-n", key, "--", "true")
	}
	for _, part := range []string{"BLPOP list 0\r\n", "*3\r\n$3\r\nSET\r\n$1", "EVAL \"while true do end\" 0\r\n", "SET victim v NX PX 1000\r\nGET"} {
		g := b.guest(ways[2])
		_, _ = io.WriteString(g, part)
		time.Sleep(time.Millisecond) // either order is right: the command runs, or doesn't
		g.Close()
	}
	w.check()
}
