package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	ttl = 10 * time.Second // the default

	// delay is the latency of every message where all links are equal.
	delay = 500 * time.Microsecond

	// frameHeader is the length of a frame before its payload: four bytes of length and one of
	// version.
	frameHeader = 5

	// patience bounds every wait. Nothing fails in these worlds, so patience is never used up.
	patience = time.Minute
)

var (
	// equal links make every measured time a multiple of the delay.
	equal = sim.Net{Least: delay, Most: delay, Jitter: -1}
	// uneven links have the same average latency, apart from the additions: each link has a base of
	// 0.25 to 0.75 ms, each message takes up to half of the base more, and one message in a hundred
	// up to nine bases more. A majority is then as fast as the slowest link that it needs.
	uneven = sim.Net{Least: delay / 2, Most: delay * 3 / 2, Jitter: 50, Spikes: 10}
)

// shape is the size of a mesh.
type shape struct{ nodes, voters int }

func (s shape) String() string {
	if s.nodes == s.voters {
		return fmt.Sprintf("%d, all vote", s.nodes)
	}
	return fmt.Sprintf("%d, of which %d vote", s.nodes, s.voters)
}

// mesh is a world without faults in which all voters count.
type mesh struct {
	*sim.World
	ear
	names  []string // voters first
	voters int
}

func newMesh(s shape, net sim.Net, seed uint64, unjudged bool) (*mesh, error) {
	m := &mesh{voters: s.voters}
	m.reset()
	for i := range s.nodes {
		m.names = append(m.names, fmt.Sprintf("node-%03d", i+1))
	}
	m.World = sim.New(sim.Options{
		Seed: seed, Voters: s.voters, Clients: s.nodes - s.voters, Names: m.names, MaxTTL: ttl,
		Net: net, Clocks: sim.Clocks{Exact: true}, Observe: m, Unjudged: unjudged,
	})
	if !m.Script.Awake() {
		return nil, m.why("the mesh isn't ready")
	}
	m.Run(ttl) // until refreshes are in their steady state
	return m, m.Err()
}

// why returns the error for an expected event that hasn't happened.
func (m *mesh) why(text string) error {
	if err := m.Err(); err != nil {
		return err
	}
	return errors.New(text + " after " + m.Now().String())
}

// becomes waits for a request's state.
func (m *mesh) becomes(r *sim.Request, s sim.State) error {
	if !m.RunUntil(patience, func() bool { return r.State == s }) {
		return m.why(fmt.Sprintf("%s's request for %q is %v instead of %v", r.Node, r.Key, r.State, s))
	}
	return nil
}

// take makes a node lock a key and release it, and returns how long the lock took.
func (m *mesh) take(node, key string) (time.Duration, error) {
	r := m.Script.Lock(node, key)
	if err := m.becomes(r, sim.Granted); err != nil {
		return 0, err
	}
	m.Script.Release(r)
	return r.Had - r.Asked, m.becomes(r, sim.Released)
}

// warmUp makes a node lock keys until the node knows its round-trip times.
func (m *mesh) warmUp(node string) error {
	for range 60 {
		if _, err := m.take(node, "warm"); err != nil {
			return err
		}
	}
	m.Run(ttl / 100)
	return nil
}

// traffic is a number of messages, and the bytes of their frames.
type traffic struct{ messages, bytes int }

func (t *traffic) add(bytes int) { t.messages++; t.bytes += bytes }

// ear observes all messages between nodes.
type ear struct {
	kinds          map[vote.Kind]*traffic
	sent, received map[string]*traffic // by node
	granted        func(*sim.Request)  // may be nil
	buf            []byte
}

// reset clears the counts.
func (e *ear) reset() {
	e.kinds = make(map[vote.Kind]*traffic)
	e.sent, e.received = make(map[string]*traffic), make(map[string]*traffic)
}

// Granted, Ended and Sent make an ear a sim.Observer.
func (e *ear) Granted(r *sim.Request) {
	if e.granted != nil {
		e.granted(r)
	}
}

func (e *ear) Ended(*sim.Request) {}

func (e *ear) Sent(from, to vote.SessionID, m *vote.Message, between bool) {
	if !between {
		return
	}
	b, err := transport.Append(e.buf[:0], m)
	if err != nil {
		return // the world itself reports the error
	}
	e.buf = b
	n := frameHeader + len(b)
	of(e.kinds, m.Kind).add(n)
	of(e.sent, string(from.Node)).add(n)
	of(e.received, string(to.Node)).add(n)
}

func of[K comparable](all map[K]*traffic, k K) *traffic {
	t := all[k]
	if t == nil {
		t = new(traffic)
		all[k] = t
	}
	return t
}

// said returns the total: of the messages of locks, sent in order, or of all other (urgent)
// messages.
func (e *ear) said(ofLocks bool) (t traffic) {
	for k, x := range e.kinds {
		if k.Urgent() != ofLocks {
			t.messages += x.messages
			t.bytes += x.bytes
		}
	}
	return t
}
