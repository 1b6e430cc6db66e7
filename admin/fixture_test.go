package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/pipes"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testToken  = "0123456789-test-token"
	testSecret = "SeCrEt-q8Zr3uK1vXw7Yb2LmN4pT6sD" // of the mesh; must be in no answer
)

// site is a handler of a node, served in memory.
type site struct {
	t       *testing.T
	owner   bool // connections count as connections over the owner's socket
	m       *meshtest.Mesh
	mesh    *lockmesh.Mesh
	h       *Handler
	l       *pipes.Listener
	c       *Client // with the token
	stopped chan struct{}
	stop    context.CancelFunc
}

// newSite serves a handler of a node with testToken, locks and further options, until stop is
// called or the test ends.
func newSite(t *testing.T, m *meshtest.Mesh, node string, opts ...Option) *site {
	t.Helper()
	return startSite(t, m, node, false, opts...)
}

// newOwnerSite is newSite with connections as over the owner's socket.
func newOwnerSite(t *testing.T, m *meshtest.Mesh, node string, opts ...Option) *site {
	t.Helper()
	return startSite(t, m, node, true, opts...)
}

func startSite(t *testing.T, m *meshtest.Mesh, node string, owner bool, opts ...Option) *site {
	t.Helper()
	s := &site{t: t, m: m, owner: owner, mesh: m.Node(node), l: pipes.New(), stopped: make(chan struct{})}
	quiet := slog.New(slog.DiscardHandler)
	s.h = New(s.mesh, append([]Option{WithToken(testToken), AllowLocks(lockmesh.DefaultMaxTTL), WithLogger(quiet)}, opts...)...)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(s.stopped)
		if err := serve(ctx, s.l, s.h, owner); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	s.c = s.client(testToken)
	s.stop = func() { cancel(); <-s.stopped }
	t.Cleanup(s.stop)
	return s
}

// client returns a client of the site; its connections are closed when the test ends.
func (s *site) client(token string) *Client {
	s.t.Helper()
	c, err := NewClient("http://localhost", token)
	if err != nil {
		s.t.Fatal(err)
	}
	c.HTTP.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.l.Dial(ctx) }
	s.t.Cleanup(c.Close)
	return c
}

// raw sends the text of a request over a new connection, which is closed when the test ends.
func (s *site) raw(text string) net.Conn {
	s.t.Helper()
	conn, err := s.l.Dial(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// request returns the beginning of a raw request, with the token.
func request(line string) string {
	return line + " HTTP/1.1\nHost: localhost\nAuthorization: Bearer " + testToken + "\n"
}

// run runs a test in simulated time with a mesh of three nodes that have testSecret.
func run(t *testing.T, f func(t *testing.T, m *meshtest.Mesh), opts ...meshtest.Option) {
	t.Helper()
	secret := meshtest.WithConfig(func(c *lockmesh.Config) { c.Secret = lockmesh.Secret(testSecret) })
	meshtest.Run(t, 3, f, append([]meshtest.Option{secret}, opts...)...)
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError fails unless an error is all of some.
func wantError(t *testing.T, err error, all ...error) {
	t.Helper()
	for _, e := range all {
		if !errors.Is(err, e) {
			t.Errorf("the error is %v, not %v", err, e)
		}
	}
}

// holders returns the numbers of holders and waiters of a key, as seen by another node.
func (s *site) holders(key string) (holds, waits int) {
	s.t.Helper()
	info, err := s.m.Node("b").Inspect(s.t.Context(), key)
	must(s.t, err)
	return len(info.Holders), len(info.Waiters)
}

// becomes waits in simulated time until a key has so many holders and waiters.
func (s *site) becomes(key string, holds, waits int) {
	s.t.Helper()
	for range 600 {
		if h, w := s.holders(key); h == holds && w == waits {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	h, w := s.holders(key)
	s.t.Fatalf("after a minute %q has %d holders and %d waiters, not %d and %d", key, h, w, holds, waits)
}

// taken returns the count when all handlers in the bubble are idle or blocked.
func (g *gauge) taken() int {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

func transportOf(c *Client) *http.Transport { return c.HTTP.Transport.(*http.Transport) }
