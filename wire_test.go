package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// wire is a network in memory, so that whole meshes live in one bubble of fake time. Messages pass through the real codec.
type wire struct {
	t        *testing.T
	noGossip bool // set before the first node joins: nobody hears of anybody

	mu      sync.Mutex
	ports   map[string]*wirePort
	last    vote.Conn
	stalled map[vote.NodeID]bool // whose messages are lost on the way, both ways
	known   map[vote.NodeID]bool // to gossip, from an earlier life or this one
	meshes  []*Mesh
}

var errWireRefused = errors.New("connection refused")

// inBubble runs a test in a bubble with a network. What is still open at its end is closed.
func inBubble(t *testing.T, f func(t *testing.T, w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{t: t, ports: make(map[string]*wirePort), stalled: make(map[vote.NodeID]bool), known: make(map[vote.NodeID]bool)}
		defer func() {
			for _, m := range w.meshes {
				if err := m.Close(); err != nil {
					t.Errorf("closing %s: %v", m.Name(), err)
				}
			}
		}()
		f(t, w)
	})
}

func (w *wire) world() world {
	return world{
		listen: w.listen,
		gossip: func(l links, c member.Config) (member.Group, error) { return w.gossip(l.(*wirePort), c), nil },
	}
}

// wireAddr is where the node of a one-letter name listens.
func wireAddr(name string) string { return fmt.Sprintf("10.0.0.%d:7950", name[0]-'a'+1) }

// join starts a node; edit may be nil.
func (w *wire) join(name string, voters []string, edit func(*Config)) *Mesh {
	w.t.Helper()
	cfg := Config{
		Name: name, Bind: wireAddr(name), Voters: voters, Insecure: true, Clock: clock.New(), Logger: slog.New(slog.DiscardHandler),
	}
	for _, v := range voters {
		cfg.Peers = append(cfg.Peers, wireAddr(v))
	}
	if edit != nil {
		edit(&cfg)
	}
	m, err := join(w.t.Context(), cfg, w.world())
	if err != nil {
		w.t.Fatal(err)
	}
	w.meshes = append(w.meshes, m)
	return m
}

// three starts three nodes, all voters, and waits until they are ready.
func (w *wire) three() (a, b, c *Mesh) {
	w.t.Helper()
	voters := []string{"a", "b", "c"}
	a, b, c = w.join("a", voters, nil), w.join("b", voters, nil), w.join("c", voters, nil)
	for _, m := range []*Mesh{a, b, c} {
		if err := m.Ready(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	return a, b, c
}

// stall loses all messages from and to a node from now on, or no more.
func (w *wire) stall(name vote.NodeID, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalled[name] = on
}

func (w *wire) listen(c transport.Config) (links, error) {
	p := &wirePort{wire: w, cfg: c, ends: make(map[vote.Conn]*wireEnd)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ports[c.Bind] != nil {
		return nil, fmt.Errorf("Bind %q is taken", c.Bind)
	}
	w.ports[c.Bind] = p
	return p, nil
}

// wirePort is one node's place in a wire.
type wirePort struct {
	wire    *wire
	cfg     transport.Config
	gossip  *wireGroup
	readers sync.WaitGroup

	// Guarded by wire.mu.
	ends map[vote.Conn]*wireEnd
	down bool
}

// wireEnd is one side's half of a connection.
type wireEnd struct {
	id     vote.Conn
	port   *wirePort
	other  *wireEnd
	peer   vote.SessionID
	in     chan *vote.Message
	closed chan struct{}
}

func (p *wirePort) AdvertiseAddr() string { return p.cfg.Bind }

func (p *wirePort) Dial(_ context.Context, addr string, want vote.NodeID) (vote.Conn, error) {
	them, err := p.reach(addr)
	if err != nil {
		return 0, err
	}
	if them.cfg.Self.Node != want {
		return 0, &transport.WrongNodeError{Want: want, Got: them.cfg.Self.Node}
	}
	w := p.wire
	w.mu.Lock()
	if p.down || them.down {
		w.mu.Unlock()
		return 0, errWireRefused
	}
	mine, theirs := p.end(them.cfg.Self), them.end(p.cfg.Self)
	mine.other, theirs.other = theirs, mine
	p.readers.Add(1) // before Close can wait for them
	them.readers.Add(1)
	w.mu.Unlock()
	them.cfg.Handler.Linked(theirs.id, theirs.peer, false)
	p.cfg.Handler.Linked(mine.id, mine.peer, true)
	go theirs.read()
	go mine.read()
	return mine.id, nil
}

// end makes one half of a connection; wire.mu is held.
func (p *wirePort) end(peer vote.SessionID) *wireEnd {
	p.wire.last++
	e := &wireEnd{id: p.wire.last, port: p, peer: peer, in: make(chan *vote.Message, 1<<16), closed: make(chan struct{})}
	p.ends[e.id] = e
	return e
}

func (p *wirePort) Greet(_ context.Context, addr string) (vote.SessionID, error) {
	them, err := p.reach(addr)
	if err != nil {
		return vote.SessionID{}, err
	}
	return them.cfg.Self, nil
}

func (p *wirePort) reach(addr string) (*wirePort, error) {
	w := p.wire
	w.mu.Lock()
	them := w.ports[addr]
	cut := them == nil || them.down || w.stalled[p.cfg.Self.Node] || w.stalled[them.cfg.Self.Node]
	w.mu.Unlock()
	switch {
	case cut:
		return nil, errWireRefused
	case them == p:
		return nil, transport.ErrSelf
	case string(them.cfg.Secret) != string(p.cfg.Secret):
		return nil, &transport.RefusedError{Reason: vote.ReasonSecret, Text: "the secrets differ"}
	case them.cfg.Terms.MaxTTL != p.cfg.Terms.MaxTTL:
		return nil, &transport.RefusedError{Peer: them.cfg.Self.Node, Reason: vote.ReasonTerms, Text: fmt.Sprintf(
			"MaxTTL is %v here and %v there", p.cfg.Terms.MaxTTL, them.cfg.Terms.MaxTTL)}
	}
	return them, nil
}

func (p *wirePort) Send(c vote.Conn, m *vote.Message) {
	frame, err := transport.Append(nil, m)
	if err != nil {
		panic(err)
	}
	w := p.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	e := p.ends[c]
	if e == nil || w.stalled[p.cfg.Self.Node] || w.stalled[e.peer.Node] {
		return
	}
	msg := new(vote.Message)
	if err := transport.Decode(frame, msg); err != nil {
		panic(err)
	}
	e.other.in <- msg
}

func (p *wirePort) CloseConn(c vote.Conn) {
	p.wire.mu.Lock()
	defer p.wire.mu.Unlock()
	p.hangUp(c)
}

// hangUp ends both halves; wire.mu is held.
func (p *wirePort) hangUp(c vote.Conn) {
	e := p.ends[c]
	if e == nil {
		return
	}
	for _, e := range []*wireEnd{e, e.other} {
		if e.port.ends[e.id] != nil {
			delete(e.port.ends, e.id)
			close(e.closed)
		}
	}
}

func (e *wireEnd) read() {
	defer e.port.readers.Done()
	h := e.port.cfg.Handler
	for {
		select {
		case m := <-e.in:
			h.Received(e.id, e.peer, m)
		case <-e.closed:
			for len(e.in) > 0 {
				h.Received(e.id, e.peer, <-e.in)
			}
			h.Closed(e.id, e.peer, transport.ErrClosed)
			return
		}
	}
}

func (p *wirePort) Close() error {
	p.wire.mu.Lock()
	p.down = true
	for _, c := range slices.Collect(maps.Keys(p.ends)) {
		p.hangUp(c)
	}
	if p.wire.ports[p.cfg.Bind] == p {
		delete(p.wire.ports, p.cfg.Bind)
	}
	p.wire.mu.Unlock()
	p.readers.Wait()
	return nil
}

// wireGroup is gossip that knows at once who is there.
type wireGroup struct {
	wire *wire
	self member.Member
	cfg  member.Config
	left bool // guarded by wire.mu
}

func (w *wire) gossip(p *wirePort, c member.Config) *wireGroup {
	g := &wireGroup{wire: w, cfg: c, self: member.Member{Name: c.Self.Node, Life: c.Self.Life, Addr: p.cfg.Bind, State: member.Alive}}
	var events []func()
	w.mu.Lock()
	p.gossip = g
	back := w.known[g.self.Name]
	w.known[g.self.Name] = true
	for _, other := range w.ports {
		o := other.gossip
		if o == nil || other == p || w.noGossip || o.cfg.Terms.MaxTTL != c.Terms.MaxTTL {
			continue
		}
		toThem, toUs := member.Joined, member.Joined
		switch {
		case o.self.Name == g.self.Name:
			toThem, toUs = member.NameConflict, member.NameConflict
		case back: // this gossip never notices a failure, only the new life
			toThem = member.Updated
		}
		events = append(events,
			func() { o.cfg.Handler(member.Event{Member: g.self, Kind: toThem}) },
			func() { g.cfg.Handler(member.Event{Member: o.self, Kind: toUs}) })
	}
	w.mu.Unlock()
	for _, tell := range events {
		tell()
	}
	return g
}

func (g *wireGroup) Members() []member.Member {
	g.wire.mu.Lock()
	defer g.wire.mu.Unlock()
	all := []member.Member{g.self}
	for _, p := range g.wire.ports {
		if o := p.gossip; o != nil && o != g && !g.wire.noGossip {
			all = append(all, o.self)
		}
	}
	return all
}

func (g *wireGroup) Leave(context.Context) error {
	g.wire.mu.Lock()
	defer g.wire.mu.Unlock()
	g.left = true
	g.self.State = member.Left
	return nil
}

func (g *wireGroup) Close() error { return nil }

// jumpy is a clock that can be pushed ahead without any timer noticing, as a machine that slept would see it.
type jumpy struct {
	clock.Clock
	mu    sync.Mutex
	ahead time.Duration
}

func (j *jumpy) Now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Clock.Now().Add(j.ahead)
}

func (j *jumpy) jump(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ahead += d
}
