package meshtest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/world"
)

// maxNodes bounds a mesh so that each node has an address of its own in 10.0.0.0/8; more than a few dozen tell a test nothing new.
const maxNodes = 1000

// join is lockmesh's way to join a mesh in another world.
var join = world.Join.(func(context.Context, lockmesh.Config, world.World) (*lockmesh.Mesh, error))

// Mesh is a mesh in memory. Its methods may be called from any goroutine; but when they are misused they end the test, which works only in
// the goroutine that runs it.
type Mesh struct {
	t     testing.TB
	opts  options
	net   *memnet.Network
	nodes []*node // in order; not changed after New

	turn chan struct{} // full while one goroutine changes something; a mutex would keep simulated time from passing
	cuts map[way]bool  // the turn's; replaced, never changed

	limit *time.Timer // what ends a test that lasts too long
}

// node is one name: what lives under it now, and what outlasts a life. It belongs to the turn; life may be read by anyone.
type node struct {
	index  int
	name   string
	ahead  time.Duration // of its clock
	life   atomic.Pointer[lockmesh.Mesh]
	proc   *memnet.Process
	up     bool // not crashed
	paused bool
	begun  bool // it has lived before
}

// way is from one node to another.
type way struct{ from, to string }

// lastWords is for how much longer time passes in a bubble of [Run] after f has returned and the mesh was closed. Goroutines that hear of either in
// this time can end; those that are left at the end of a bubble make it panic, and nobody sees why the test has failed.
const lastWords = time.Minute

// longest is for how many MaxTTL a test may last. In simulated time a mesh always finds something to do, so a test that waits for what can't come would go on
// for as long as go test lets it. Three nodes come so far with 25 seconds of processor time.
const longest = 100_000

// Run runs a test in a bubble of simulated time (see [synctest.Test]), with a mesh of n nodes that are ready. The mesh is closed when f returns.
//
// In the bubble time passes only while every goroutine waits, so f can sleep for hours and takes milliseconds. The rules of synctest hold: f
// can't call t.Run, t.Parallel or t.Deadline of its own t, and the goroutines that it starts must end, at the latest within a minute of
// simulated time after f has returned, when t.Context has ended and calls into the nodes return ErrClosed.
func Run(t *testing.T, n int, f func(t *testing.T, m *Mesh), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		t.Cleanup(func() { time.Sleep(lastWords) }) // after the mesh was closed
		m := New(t, n, opts...)
		m.Ready()
		f(t, m)
	})
}

// New starts a mesh of n nodes in memory, and returns without waiting for them: see [Mesh.Ready]. They are closed when the test ends.
//
// Called in a bubble of [synctest.Test] it lives in simulated time; the mesh must then be used in that bubble only. Called elsewhere it lives
// in real time, for tests that can't be in a bubble as they drive something with sockets. A mesh waits for MaxTTL before it grants
// its first lock, so in real time give it a short one.
//
// A test whose mesh lasts longer than 100,000 MaxTTL fails, and all calls into the nodes end: it must have been waiting for what couldn't come.
func New(t testing.TB, n int, opts ...Option) *Mesh {
	t.Helper()
	m := &Mesh{t: t, opts: newOptions(t, n, opts), turn: make(chan struct{}, 1)}
	m.net = memnet.New(m.opts.latency)
	for i, name := range m.opts.names {
		m.nodes = append(m.nodes, &node{index: i, name: name})
	}
	t.Cleanup(m.end)
	defer m.take()()
	for _, n := range m.nodes {
		m.start(n)
	}
	m.limit = time.AfterFunc(longest*m.opts.maxTTL, m.giveUp)
	return m
}

// take waits for the turn, and returns what gives it back.
func (m *Mesh) take() func() {
	m.turn <- struct{}{}
	return func() { <-m.turn }
}

// start begins a new life.
func (m *Mesh) start(n *node) {
	m.t.Helper()
	proc := m.net.Start()
	proc.Clock().Set(n.ahead)
	cfg := lockmesh.Config{
		Name: n.name, Bind: n.addr(), Voters: slices.Clone(m.opts.names[:m.opts.voters]), MaxTTL: m.opts.maxTTL,
		Insecure: true, // there is no network that could be trusted or not
		Clock:    proc.Clock(), Logger: slog.New(slog.DiscardHandler),
	}
	if m.opts.follow {
		cfg.StateDir, cfg.Found = n.stateDir(), !n.begun && n.index < m.opts.voters
	}
	for _, v := range m.nodes[:m.opts.voters] {
		cfg.Peers = append(cfg.Peers, v.addr())
	}
	before := cfg
	before.Peers, before.Voters = slices.Clone(cfg.Peers), slices.Clone(cfg.Voters)
	m.opts.edit(&cfg)
	if cfg.StateDir != before.StateDir || cfg.Found != before.Found || cfg.Name != before.Name || cfg.Bind != before.Bind || cfg.Advertise != "" || cfg.Clock != before.Clock || cfg.MaxTTL != before.MaxTTL ||
		!slices.Equal(cfg.Peers, before.Peers) || !slices.Equal(cfg.Voters, before.Voters) {
		m.t.Fatalf("meshtest: Configure has changed Name, Bind, Advertise, Peers, Voters, StateDir, Found, MaxTTL or Clock of %s; use Names, Voters, FollowsTheLiving, MaxTTL and SetClock", n.name)
	}
	life, err := join(m.t.Context(), cfg, proc.World())
	if err != nil {
		m.t.Fatalf("meshtest: starting %s: %v", n.name, err)
	}
	n.proc, n.up, n.begun = proc, true, true
	n.life.Store(life)
}

// addr is made of numbers, so that nobody looks it up.
func (n *node) addr() string { return fmt.Sprintf("10.0.%d.%d:7950", n.index/250, n.index%250+1) }

func (n *node) stateDir() string { return "/" + n.name }

// giveUp ends a test that has lasted too long.
func (m *Mesh) giveUp() {
	m.t.Errorf("meshtest: the test is given up, since %v have passed in its mesh, and all nodes are closed. Does it wait for what can't come, such as a lock "+
		"without a majority, or a call into a node that it has paused?", longest*m.opts.maxTTL)
	m.end()
}

// end closes all nodes.
func (m *Mesh) end() {
	defer m.take()()
	if m.limit != nil {
		m.limit.Stop()
	}
	for _, n := range m.nodes {
		m.kill(n)
	}
}

// find returns the node of a name.
func (m *Mesh) find(name string) *node {
	m.t.Helper()
	for _, n := range m.nodes {
		if n.name == name {
			return n
		}
	}
	m.t.Fatalf("meshtest: there is no node %q; there are %s", name, strings.Join(m.opts.names, ", "))
	return nil
}

// Node returns the node of a name; after a crash, the one that crashed, until Restart.
func (m *Mesh) Node(name string) *lockmesh.Mesh {
	m.t.Helper()
	return m.find(name).life.Load()
}

// Nodes returns all nodes in order, as [Mesh.Node] does. The caller owns the slice.
func (m *Mesh) Nodes() []*lockmesh.Mesh {
	all := make([]*lockmesh.Mesh, 0, len(m.nodes))
	for _, n := range m.nodes {
		all = append(all, n.life.Load())
	}
	return all
}

const (
	// readyMargin is what a start takes besides the quiet time: finding each other again, five seconds at most, and asking for tokens.
	readyMargin = 15 * time.Second

	// readyAgain is how soon a node is looked at again that doesn't count some voter yet.
	readyAgain = 10 * time.Millisecond
)

// Ready waits until the named nodes are ready, see [lockmesh.Mesh.Ready], and count the voters among them, except those that they are cut off
// from; without names, all nodes that run. It fails the test if that isn't so after two MaxTTL and 15 seconds, which is longer than it
// takes while they can reach a majority.
func (m *Mesh) Ready(names ...string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*m.opts.maxTTL+readyMargin)
	defer cancel()
	nodes, cuts := m.running(names)
	for _, n := range nodes {
		if err := n.Ready(ctx); err != nil {
			m.t.Fatalf("meshtest: %s isn't ready: %v", n.Name(), err)
		}
	}
	for _, n := range nodes {
		for {
			missing := missing(n, nodes, cuts)
			if missing == "" {
				break
			}
			select {
			case <-time.After(readyAgain):
			case <-ctx.Done():
				m.t.Fatalf("meshtest: %s can lock, but doesn't count all voters that it should: %s", n.Name(), missing)
			}
		}
	}
}

// missing says which voter among the nodes doesn't count for one of them though they hear each other; empty if there is none.
func missing(n *lockmesh.Mesh, nodes []*lockmesh.Mesh, cuts map[way]bool) string {
	for _, v := range n.Status().Electorate.Voters {
		waited := slices.ContainsFunc(nodes, func(o *lockmesh.Mesh) bool { return o.Name() == v.Name })
		if waited && v.State != lockmesh.VoterReachable && !cuts[way{v.Name, n.Name()}] && !cuts[way{n.Name(), v.Name}] {
			return v.Text
		}
	}
	return ""
}

// running returns the named nodes, or all that run, and the cuts between them.
func (m *Mesh) running(names []string) (nodes []*lockmesh.Mesh, cuts map[way]bool) {
	m.t.Helper()
	defer m.take()()
	for _, name := range names {
		n := m.find(name)
		if c := n.condition(); c != running {
			m.t.Fatalf("meshtest: Ready(%q): it %s; only a node that runs gets ready", name, c)
		}
		nodes = append(nodes, n.life.Load())
	}
	if len(names) > 0 {
		return nodes, m.cuts
	}
	for _, n := range m.nodes {
		if n.condition() == running && !n.life.Load().Status().Closed { // it may have left by itself
			nodes = append(nodes, n.life.Load())
		}
	}
	return nodes, m.cuts
}

// What a node does, in words.
const (
	running = "runs"
	paused  = "is paused"
	down    = "has crashed"
)

func (n *node) condition() string {
	switch {
	case !n.up:
		return down
	case n.paused:
		return paused
	}
	return running
}
