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

// maxNodes bounds a mesh so that each node has its own address in 10.0.0.0/8; more than a few dozen
// nodes tell a test nothing new.
const maxNodes = 1000

// join is lockmesh's Join in a given world, here a world in memory.
var join = world.Join.(func(context.Context, lockmesh.Config, world.World) (*lockmesh.Mesh, error))

// Mesh is a mesh in memory. Its methods may be called from any goroutine; but a misuse ends the
// test, which works only on the test's own goroutine.
type Mesh struct {
	t     testing.TB
	opts  options
	net   *memnet.Network
	nodes []*node // in order; not changed after New

	// sem is full while one goroutine changes the mesh: a channel, since a goroutine blocked on a
	// mutex would keep simulated time from passing.
	sem  chan struct{}
	cuts map[link]bool // guarded by sem; replaced, never changed

	timeLimit *time.Timer // ends a test that lasts too long
}

// node is one name: its current incarnation, and the state that survives an incarnation. sem
// guards a node; any goroutine may read mesh.
type node struct {
	index       int
	name        string
	clockOffset time.Duration // the offset of its clock
	mesh        atomic.Pointer[lockmesh.Mesh]
	proc        *memnet.Process
	up          bool // not crashed
	paused      bool
	started     bool // an earlier incarnation has run
}

// link is the direction from one node to another.
type link struct{ from, to string }

// drainTime is how much simulated time passes at the end of a bubble of [Run], after f has returned
// and the mesh was closed. In this time goroutines can end that react to either event; a goroutine
// that remains at the end of a bubble causes a panic, which hides the reason for the test's
// failure.
const drainTime = time.Minute

// maxTTLs is for how many MaxTTL a test may last. In simulated time a mesh never runs out of work,
// so a test waiting for an impossible event would run until the timeout of go test. Three nodes
// reach the limit with 25 seconds of processor time.
const maxTTLs = 100_000

// Run runs a test in a bubble of simulated time (see [synctest.Test]), with a mesh of n ready
// nodes. The mesh is closed when f returns.
//
// In the bubble time passes only while every goroutine waits, so f can sleep for hours and still
// take milliseconds. The rules of synctest hold: f can't call t.Run, t.Parallel or t.Deadline of
// its own t, and its goroutines must end, at the latest within a minute of simulated time after f
// has returned, when t.Context has ended and calls into the nodes return ErrClosed.
func Run(t *testing.T, n int, f func(t *testing.T, m *Mesh), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		t.Cleanup(func() { time.Sleep(drainTime) }) // after the mesh was closed
		m := New(t, n, opts...)
		m.Ready()
		f(t, m)
	})
}

// New starts a mesh of n nodes in memory, and returns without waiting for the nodes: see
// [Mesh.Ready]. The nodes are closed when the test ends.
//
// In a bubble of [synctest.Test] the mesh runs in simulated time and must be used in the same
// bubble only. Elsewhere the mesh runs in real time, for tests with sockets, which can't run in a
// bubble. A mesh waits for MaxTTL before it grants its first lock, so choose a short MaxTTL in real
// time.
//
// A test with a mesh that lasts longer than 100,000 MaxTTL fails, and all calls into the nodes end:
// the test must have been waiting for an impossible event.
func New(t testing.TB, n int, opts ...Option) *Mesh {
	t.Helper()
	m := &Mesh{t: t, opts: newOptions(t, n, opts), sem: make(chan struct{}, 1)}
	m.net = memnet.New(m.opts.latency)
	for i, name := range m.opts.names {
		m.nodes = append(m.nodes, &node{index: i, name: name})
	}
	t.Cleanup(m.end)
	defer m.acquire()()
	for _, n := range m.nodes {
		m.start(n)
	}
	m.timeLimit = time.AfterFunc(maxTTLs*m.opts.maxTTL, m.timeOut)
	return m
}

// acquire acquires sem, and returns the function to release sem.
func (m *Mesh) acquire() func() {
	m.sem <- struct{}{}
	return func() { <-m.sem }
}

// start starts a new incarnation.
func (m *Mesh) start(n *node) {
	m.t.Helper()
	proc := m.net.Start()
	proc.Clock().Set(n.clockOffset)
	cfg := lockmesh.Config{
		Name: n.name, Bind: n.addr(), Voters: slices.Clone(m.opts.names[:m.opts.voters]), MaxTTL: m.opts.maxTTL,
		Insecure: true, // there is no network to be trusted or not
		Clock:    proc.Clock(), Logger: slog.New(slog.DiscardHandler),
	}
	if m.opts.dynamic {
		cfg.StateDir, cfg.Bootstrap = n.stateDir(), !n.started && n.index < m.opts.voters
	}
	for _, v := range m.nodes[:m.opts.voters] {
		cfg.Peers = append(cfg.Peers, v.addr())
	}
	before := cfg
	before.Peers, before.Voters = slices.Clone(cfg.Peers), slices.Clone(cfg.Voters)
	m.opts.configure(&cfg)
	if cfg.StateDir != before.StateDir || cfg.Bootstrap != before.Bootstrap || cfg.Name != before.Name || cfg.Bind != before.Bind || cfg.Advertise != "" || cfg.Clock != before.Clock || cfg.MaxTTL != before.MaxTTL ||
		!slices.Equal(cfg.Peers, before.Peers) || !slices.Equal(cfg.Voters, before.Voters) {
		m.t.Fatalf("meshtest: WithConfig has changed Name, Bind, Advertise, Peers, Voters, StateDir, Bootstrap, MaxTTL or Clock of %s; use WithNames, WithVoters, WithDynamicMembership, WithMaxTTL and SetClock", n.name)
	}
	mesh, err := join(m.t.Context(), cfg, proc.World())
	if err != nil {
		m.t.Fatalf("meshtest: starting %s: %v", n.name, err)
	}
	n.proc, n.up, n.started = proc, true, true
	n.mesh.Store(mesh)
}

// addr is an IP address with a port, so that no name needs to be resolved.
func (n *node) addr() string { return fmt.Sprintf("10.0.%d.%d:7950", n.index/250, n.index%250+1) }

func (n *node) stateDir() string { return "/" + n.name }

// timeOut ends a test that has lasted too long.
func (m *Mesh) timeOut() {
	m.t.Errorf("meshtest: the test is given up, since %v have passed in its mesh, and all nodes are closed. Does it wait for what can't come, such as a lock "+
		"without a majority, or a call into a node that it has paused?", maxTTLs*m.opts.maxTTL)
	m.end()
}

// end closes all nodes.
func (m *Mesh) end() {
	defer m.acquire()()
	if m.timeLimit != nil {
		m.timeLimit.Stop()
	}
	for _, n := range m.nodes {
		m.kill(n)
	}
}

// find returns the node with the given name.
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

// Node returns the node with the given name; after a crash, the crashed incarnation, until Restart.
func (m *Mesh) Node(name string) *lockmesh.Mesh {
	m.t.Helper()
	return m.find(name).mesh.Load()
}

// Nodes returns all nodes in order, each as by [Mesh.Node]. The caller owns the slice.
func (m *Mesh) Nodes() []*lockmesh.Mesh {
	all := make([]*lockmesh.Mesh, 0, len(m.nodes))
	for _, n := range m.nodes {
		all = append(all, n.mesh.Load())
	}
	return all
}

const (
	// readyMargin is the duration of a start besides the quarantine: finding the other nodes, five
	// seconds at most, and querying the tokens.
	readyMargin = 15 * time.Second

	// readyPollInterval is the interval at which Ready checks again whether a node counts all
	// voters.
	readyPollInterval = 10 * time.Millisecond
)

// Ready waits until the named nodes are ready, see [lockmesh.Mesh.Ready], and count the voters
// among them, except voters that a cut separates from the node; without names, Ready waits for all
// running nodes. Ready fails the test after two MaxTTL and 15 seconds, more than enough while the
// nodes can reach a majority.
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
			missing := unreachableVoter(n, nodes, cuts)
			if missing == "" {
				break
			}
			select {
			case <-time.After(readyPollInterval):
			case <-ctx.Done():
				m.t.Fatalf("meshtest: %s can lock, but doesn't count all voters that it should: %s", n.Name(), missing)
			}
		}
	}
}

// unreachableVoter describes a voter among nodes that n doesn't count although no cut separates the
// two; empty if there is none.
func unreachableVoter(n *lockmesh.Mesh, nodes []*lockmesh.Mesh, cuts map[link]bool) string {
	for _, v := range n.Status().Electorate.Voters {
		waited := slices.ContainsFunc(nodes, func(o *lockmesh.Mesh) bool { return o.Name() == v.Name })
		if waited && v.State != lockmesh.VoterReachable && !cuts[link{v.Name, n.Name()}] && !cuts[link{n.Name(), v.Name}] {
			return v.Text
		}
	}
	return ""
}

// running returns the named nodes, or all running nodes, and the current cuts.
func (m *Mesh) running(names []string) (nodes []*lockmesh.Mesh, cuts map[link]bool) {
	m.t.Helper()
	defer m.acquire()()
	for _, name := range names {
		n := m.find(name)
		if c := n.state(); c != running {
			m.t.Fatalf("meshtest: Ready(%q): it %s; only a node that runs gets ready", name, c)
		}
		nodes = append(nodes, n.mesh.Load())
	}
	if len(names) > 0 {
		return nodes, m.cuts
	}
	for _, n := range m.nodes {
		// the node may have left by itself
		if n.state() == running && !n.mesh.Load().Status().Closed {
			nodes = append(nodes, n.mesh.Load())
		}
	}
	return nodes, m.cuts
}

// The conditions of a node, as words for error messages.
const (
	running = "runs"
	paused  = "is paused"
	down    = "has crashed"
)

func (n *node) state() string {
	switch {
	case !n.up:
		return down
	case n.paused:
		return paused
	}
	return running
}
