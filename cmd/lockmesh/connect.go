package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/internal/pipes"
)

// goodbyeTime is the longest time for the goodbye of a node of --join. Gossip passes news on every
// 200 ms. Then the process ends, although the library would stay for a second more, to answer the
// last probes.
const goodbyeTime = 600 * time.Millisecond

const (
	// startTime is how long a node may take to start: a script may have started an agent in its
	// line before.
	startTime = time.Second

	// startPause is the pause between two tries to reach such a node.
	startPause = 10 * time.Millisecond
)

// link is a way to a node: over the address of another process, or to a node in this process.
type link struct {
	g       *globals
	address string
	token   string
	// patience is the end of the time in which a node may be starting: before, a missing socket, or
	// a socket without a listening process, is tried again.
	patience time.Time
	own      *ownNode // with --join

	mu      sync.Mutex
	clients []*admin.Client
}

// connect returns a way to the node named by the flags. With --join, the node is ready when connect
// returns; otherwise nothing is sent.
func (g *globals) connect(ctx context.Context) (*link, error) {
	l := &link{g: g, address: g.Addr, patience: time.Now().Add(startTime)}
	if len(g.Join) > 0 {
		own, err := g.join(ctx)
		if err != nil {
			return nil, err
		}
		l.own = own
		return l, nil
	}
	var err error
	if l.token, err = fromEnvironment("LOCKMESH_ADMIN_TOKEN"); err != nil {
		return nil, err
	}
	return l, nil
}

// dialer is a client's function to connect.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// client returns a new client of the node, with connections of its own. The link closes
// the client, unless drop does before.
func (l *link) client(wrap func(dialer) dialer) (*admin.Client, error) {
	address, token := l.address, l.token
	if l.own != nil {
		address, token = "http://localhost", l.own.token
	}
	c, err := admin.NewClient(address, token)
	if err != nil {
		return nil, &exit{code: exitConfig, err: err}
	}
	t := c.HTTP.Transport.(*http.Transport)
	dial := t.DialContext
	if l.own != nil {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.own.pipes.Dial(ctx) }
	}
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	if wrap != nil {
		dial = wrap(dial)
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		for isStarting(err) && time.Now().Before(l.patience) && ctx.Err() == nil {
			time.Sleep(startPause)
			conn, err = dial(ctx, network, addr)
		}
		if err != nil && ctx.Err() == nil {
			return nil, l.unreachable(err)
		}
		return conn, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients = append(l.clients, c)
	return c, nil
}

// drop closes the idle connections of a client out of use.
func (l *link) drop(c *admin.Client) {
	l.mu.Lock()
	l.clients = slices.DeleteFunc(l.clients, func(other *admin.Client) bool { return other == c })
	l.mu.Unlock()
	c.Close()
}

// unreachable describes why the node can't be reached, and gives advice.
func (l *link) unreachable(err error) error {
	advice := "is the node up?"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		advice = "start an agent there with lockmesh agent, name another socket or URL with -a or " +
			"LOCKMESH_ADDR, or join the mesh with --join"
	case errors.Is(err, fs.ErrPermission):
		advice = "the socket is for the user of the node's process, and root"
	case errors.Is(err, syscall.ECONNREFUSED):
		advice = "the node isn't up: it has ended, or listens elsewhere"
	}
	return fmt.Errorf("%w: %w (%s)", errNoAgent, err, advice)
}

// close ends the clients' connections, and the node of --join.
func (l *link) close() {
	for _, c := range l.clients {
		c.Close()
	}
	if l.own != nil {
		l.own.close()
	}
}

// isStarting reports whether the node behind an error may be about to listen.
func isStarting(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// ownNode is a node in this process, served to the clients of this process alone.
type ownNode struct {
	mesh  *lockmesh.Mesh
	pipes *pipes.Listener
	token string
	stop  context.CancelFunc
	ended chan error // of Serve
	dir   string     // to be removed; empty if there is none
}

// joinConfig returns the configuration of a node that lives for a single call. Such a node never
// votes: the mesh would wait for it after its end.
func (g *globals) joinConfig() (lockmesh.Config, error) {
	cfg, err := g.Mesh.config()
	cfg.Peers, cfg.NonVoting, cfg.Name = g.Join, true, passingName(joined, joinedLen)
	if g.Mesh.Register != "" {
		cfg.Register = uncalled{}
	}
	return cfg, err
}

// join starts a node without a vote, and waits until locks can be granted, unless the verb does.
func (g *globals) join(ctx context.Context) (*ownNode, error) {
	cfg, err := g.joinConfig()
	if err != nil {
		return nil, err
	}
	if cfg.Bind == "" {
		cfg.Bind = anyPort(g.Join)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	if g.Verbose {
		cfg.Logger = slog.New(slog.NewTextHandler(g.err, nil))
	}
	n := &ownNode{token: rand.Text(), pipes: pipes.New(), ended: make(chan error, 1)}
	if g.Mesh.Dynamic {
		// A node that never votes promises nothing, and has nothing to remember.
		if n.dir, err = os.MkdirTemp("", "lockmesh-join-"); err != nil {
			return nil, err
		}
		cfg.StateDir = n.dir
	}
	if n.mesh, err = lockmesh.Join(ctx, cfg); err != nil {
		n.removeDir()
		return nil, err
	}
	longest := cfg.MaxTTL
	if longest == 0 {
		longest = lockmesh.DefaultMaxTTL
	}
	h := admin.New(n.mesh, admin.WithToken(n.token), admin.AllowLocks(longest), admin.WithLogger(cfg.Logger))
	serving, stop := context.WithCancel(context.Background())
	n.stop = stop
	go func() { n.ended <- admin.Serve(serving, n.pipes, h) }()
	if g.unready {
		return n, nil
	}
	waiting, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	if err := n.mesh.Ready(waiting); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// anyPort returns an address with any free port, within reach of peers on loopback and elsewhere.
func anyPort(peers []string) string {
	for _, p := range peers {
		host, _, err := net.SplitHostPort(p)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return ":0"
		}
	}
	return "127.0.0.1:0"
}

// close releases the held keys, says goodbye, and ends the node.
func (n *ownNode) close() {
	n.stop()
	<-n.ended //nolint:errcheck // nothing can be done about an error: the node ends
	sayGoodbye(n.mesh)
	n.removeDir()
}

// sayGoodbye ends a node of --join.
func sayGoodbye(mesh *lockmesh.Mesh) {
	left := make(chan struct{})
	go func() { // ends with the process at the latest
		defer close(left)
		_ = mesh.Leave(context.Background()) // others find out by themselves if they can't be told
	}()
	select {
	case <-left:
	case <-time.After(goodbyeTime):
	}
}

func (n *ownNode) removeDir() {
	if n.dir != "" && filepath.IsAbs(n.dir) {
		_ = os.RemoveAll(n.dir)
	}
}
