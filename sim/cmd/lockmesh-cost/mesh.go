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

	// delay is how long every message travels where all links are equal.
	delay = 500 * time.Microsecond

	// frameHeader is what a frame has before its payload: four bytes of length and one of version.
	frameHeader = 5

	// patience is how long anything may take. Nothing fails in these worlds, so it is never used up.
	patience = time.Minute
)

var (
	// equal links make what is measured a number of delays.
	equal = sim.Net{Least: delay, Most: delay, Jitter: -1}
	// uneven links take as long on average, but for what comes on top: each has a base of 0.25 to 0.75 ms, each message takes up to half
	// of it more, and one of a hundred up to ten times as long. A majority is then as fast as the slowest link that it needs.
	uneven = sim.Net{Least: delay / 2, Most: delay * 3 / 2, Jitter: 50, Spikes: 10}
)

// shape is what a mesh is made of.
type shape struct{ nodes, voters int }

func (s shape) String() string {
	if s.nodes == s.voters {
		return fmt.Sprintf("%d, all vote", s.nodes)
	}
	return fmt.Sprintf("%d, of which %d vote", s.nodes, s.voters)
}

// mesh is a world without faults whose voters all count.
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
	if !m.Awake() {
		return nil, m.why("the mesh isn't ready")
	}
	m.Run(ttl) // until refreshes go their steady way
	return m, m.Err()
}

// why explains what should have happened and hasn't.
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

// take has a node take a key and give it back, and returns how long it waited for it.
func (m *mesh) take(node, key string) (time.Duration, error) {
	r := m.Lock(node, key)
	if err := m.becomes(r, sim.Granted); err != nil {
		return 0, err
	}
	m.Release(r)
	return r.Had - r.Asked, m.becomes(r, sim.Released)
}

// warmUp has a node take keys until it knows how long a round trip is.
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

// ear hears all that nodes say to each other.
type ear struct {
	kinds          map[vote.Kind]*traffic
	sent, received map[string]*traffic // by node
	granted        func(*sim.Request)  // nil for nobody
	buf            []byte
}

// reset forgets what was said.
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
		return // the world itself complains
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

// said sums up: what locks need, which is said in order, or the rest, which is said in any case.
func (e *ear) said(ofLocks bool) (t traffic) {
	for k, x := range e.kinds {
		if k.Urgent() != ofLocks {
			t.messages += x.messages
			t.bytes += x.bytes
		}
	}
	return t
}
