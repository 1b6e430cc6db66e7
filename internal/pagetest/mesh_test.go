//go:build hunt

package pagetest

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// token is the token of the nodes with a token.
const token = "a-token-for-the-page-test"

// ttl is the maximum TTL of the meshes. A machine that stands still for some seconds loses no lease
// that must stay held.
const ttl = 10 * time.Second

// mesh is a mesh of real nodes on loopback.
type mesh struct {
	t       *testing.T
	secret  []byte
	ttl     time.Duration
	dynamic bool
	dir     string
	voters  []string
	nodes   map[string]*lockmesh.Mesh
	peers   []string
}

// start starts a mesh of fixed voters, and doesn't wait until locks can be granted.
func start(t *testing.T, ttl time.Duration, voters ...string) *mesh {
	t.Helper()
	return (&mesh{t: t, ttl: ttl}).begin(voters...)
}

// startDynamic is start with dynamic membership.
func startDynamic(t *testing.T, ttl time.Duration, founders ...string) *mesh {
	t.Helper()
	return (&mesh{t: t, ttl: ttl, dynamic: true, dir: t.TempDir()}).begin(founders...)
}

// quick returns a mesh of three nodes that grants locks at once. Its voters have new directories,
// so they have made no promises, and aren't quiet.
func quick(t *testing.T) *mesh {
	t.Helper()
	return startDynamic(t, ttl, "a", "b", "c").ready()
}

func (m *mesh) begin(voters ...string) *mesh {
	m.t.Helper()
	m.secret, m.voters, m.nodes = []byte(rand.Text()), voters, map[string]*lockmesh.Mesh{}
	for _, name := range voters {
		m.join(name)
	}
	return m
}

// join starts a node.
func (m *mesh) join(name string) *lockmesh.Mesh {
	m.t.Helper()
	cfg := lockmesh.Config{
		Name: name, Bind: "127.0.0.1:0", Peers: m.peers, Voters: m.voters, MaxTTL: m.ttl, Secret: m.secret, Logger: slog.New(slog.DiscardHandler),
	}
	if m.dynamic {
		cfg.StateDir, cfg.Bootstrap = filepath.Join(m.dir, name), slices.Contains(m.voters, name)
	}
	node, err := lockmesh.Join(m.t.Context(), cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.nodes[name] = node
	m.peers = append(m.peers, node.Addr())
	m.t.Cleanup(func() {
		if err := node.Close(); err != nil {
			m.t.Errorf("closing %s: %v", name, err)
		}
	})
	return node
}

// ready waits until all nodes can acquire locks.
func (m *mesh) ready() *mesh {
	m.t.Helper()
	for name, node := range m.nodes {
		if err := node.Ready(m.within()); err != nil {
			m.t.Fatalf("%s: %v", name, err)
		}
	}
	return m
}

// within returns a context that ends with the test, and after patience.
func (m *mesh) within() context.Context {
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	m.t.Cleanup(cancel)
	return ctx
}

// lock acquires a lock at a node.
func (m *mesh) lock(node, key string, opts ...lockmesh.Option) *lockmesh.Lease {
	m.t.Helper()
	lease, err := m.nodes[node].Lock(m.within(), key, opts...)
	if err != nil {
		m.t.Fatal(err)
	}
	return lease
}

// want has a node wait for a lock until the test ends. The lease is sent when the node has got the
// lock.
func (m *mesh) want(node, key string, opts ...lockmesh.Option) <-chan *lockmesh.Lease {
	m.t.Helper()
	return m.wantBy(
		func(ctx context.Context) (*lockmesh.Lease, error) { return m.nodes[node].Lock(ctx, key, opts...) },
	)
}

// wantBy is want for any kind of lock.
func (m *mesh) wantBy(take func(context.Context) (*lockmesh.Lease, error)) <-chan *lockmesh.Lease {
	m.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan *lockmesh.Lease, 1)
	var done sync.WaitGroup
	done.Go(func() {
		if lease, err := take(ctx); err == nil {
			got <- lease
		}
	})
	m.t.Cleanup(func() { cancel(); done.Wait() })
	return got
}

// waits waits until so many requests wait for a key.
func (m *mesh) waits(key string, n int) {
	m.t.Helper()
	for {
		for _, node := range m.nodes {
			info, err := node.Inspect(m.within(), key)
			if err != nil {
				m.t.Fatal(err)
			}
			if len(info.Waiters) == n {
				return
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// server serves the page of a node.
type server struct {
	t       *testing.T
	address string // of the page
	stop    func()
	cut     func() // cuts all connections to the owner's socket, and refuses more
}

// serve serves the page of a node on TCP.
func (m *mesh) serve(node string, opts ...admin.Option) *server {
	m.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	return m.serveOn(l, node, opts...)
}

func (m *mesh) serveOn(l net.Listener, node string, opts ...admin.Option) *server {
	m.t.Helper()
	h := admin.New(m.nodes[node], append(opts, admin.WithLogger(slog.New(slog.DiscardHandler)))...)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- admin.Serve(ctx, l, h) }()
	s := &server{t: m.t, address: "http://" + l.Addr().String() + "/"}
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			m.t.Errorf("Serve: %v", err)
		}
	})
	m.t.Cleanup(s.stop)
	return s
}

// serveOwner serves the page of a node on the owner's socket. A port of loopback leads to the
// socket, as with ssh -L.
func (m *mesh) serveOwner(node string, opts ...admin.Option) *server {
	m.t.Helper()
	path := filepath.Join(m.t.TempDir(), "s")
	l, err := admin.Listen(path)
	if err != nil {
		m.t.Fatal(err)
	}
	s := m.serveOn(l, node, opts...)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	s.address = "http://" + port.Addr().String() + "/"
	s.cut = forward(m.t, port, path)
	return s
}

// serveBare serves the page of a node in a server of the application's own, with no option at all.
func (m *mesh) serveBare(node string) *server {
	m.t.Helper()
	h := admin.New(m.nodes[node], admin.WithLogger(slog.New(slog.DiscardHandler)))
	s := httptest.NewServer(h)
	m.t.Cleanup(func() { h.Close(); s.Close() })
	return &server{t: m.t, address: s.URL + "/"}
}

// listenAt listens at the address of a stopped server.
func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/"))
	must(t, err)
	return l
}
