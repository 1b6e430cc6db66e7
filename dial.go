package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// dialLeast and dialMost bound the pause before a voter is dialed again: short enough that a voter which restarts is back within a
	// fraction of its quiet time, long enough that one that is gone for good costs nothing.
	dialLeast = 50 * time.Millisecond
	dialMost  = time.Second

	// dialTime is how long one try may take. A voter from which no answer comes in this time is no use at the usual TTLs.
	dialTime = 3 * time.Second

	// steadyAfter is how long a link must have lasted for its end to be an accident, after which the voter is dialed at once. Links that
	// end sooner are ended on purpose, again and again.
	steadyAfter = time.Second
)

// dialers are those of the nodes to which connections are wanted. The loop changes them; anyone may look.
type dialers struct {
	m  *Mesh
	mu sync.Mutex
	by map[vote.NodeID]*dialer
}

// of returns a node's dialer; nil if no connection to it is wanted.
func (s *dialers) of(name vote.NodeID) *dialer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[name]
}

// all returns the dialers that there are.
func (s *dialers) all() []*dialer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.by))
}

// want has connections to these nodes kept up, and to no others. The loop calls it, and Join before there is one, so that Close misses no goroutine.
func (s *dialers) want(names []vote.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, d := range s.by {
		if _, wanted := slices.BinarySearch(names, name); wanted {
			continue
		}
		delete(s.by, name)
		d.stop()
		if c := d.end(); c != 0 {
			s.m.links.CloseConn(c)
		}
	}
	for _, name := range names {
		if s.by[name] != nil {
			continue
		}
		ctx, stop := context.WithCancel(s.m.ctx)
		d := &dialer{m: s.m, stop: stop, voter: name, wake: make(chan struct{}, 1), pause: backoff{least: dialLeast, most: dialMost}}
		if s.by == nil {
			s.by = make(map[vote.NodeID]*dialer)
		}
		s.by[name] = d
		s.m.work.Go(func() { d.run(ctx) })
		kick(s.m.greeter.wake)
	}
}

// linkHandler takes what the links report into the loop. Its methods are called by goroutines of the transport.
type linkHandler struct{ m *Mesh }

var _ transport.Handler = linkHandler{}

// Linked : the node hears of connections that it dialed; others speak first. The word goes by the urgent lane, so that no
// message of the connection overtakes it.
func (h linkHandler) Linked(c vote.Conn, peer vote.SessionID, dialed bool) {
	if !dialed {
		return
	}
	d := h.m.dialers.of(peer.Node)
	if d == nil || !d.up(c) { // nobody wants it any more
		h.m.loop.box.post(true, func(vote.Now) { h.m.loop.links.CloseConn(c) })
		return
	}
	h.m.loop.box.post(true, func(now vote.Now) { h.m.loop.linked(now, c, peer) })
}

func (h linkHandler) Received(c vote.Conn, peer vote.SessionID, b *transport.Batch) {
	h.m.loop.receive(c, peer, b)
}

// Closed : the word goes by the ordered lane, behind all that the connection has brought. The voter is dialed again only once the
// node knows.
func (h linkHandler) Closed(c vote.Conn, peer vote.SessionID, _ error) {
	h.m.loop.box.post(false, func(now vote.Now) {
		h.m.loop.node.Unlink(now, c)
		h.m.loop.voting.stirred = true
		if d := h.m.dialers.of(peer.Node); d != nil {
			d.down(now, c)
		}
	})
}

// onGossip takes news of members. It is called by a goroutine of the group.
func (m *Mesh) onGossip(e member.Event) {
	m.book.heard(e.Member)
	switch e.Kind {
	case member.Joined, member.Updated:
		if d := m.dialers.of(e.Member.Name); d != nil {
			kick(d.wake)
		}
	case member.NameConflict:
		m.greeter.suspect(e.Member)
	}
	if m.crier != nil {
		kick(m.crier.wake)
	}
}

// dialer keeps a link up to one voter, or to another node that is wanted while the electorate follows the living. One goroutine runs it.
type dialer struct {
	m     *Mesh
	stop  context.CancelFunc // ends the goroutine
	voter vote.NodeID
	wake  chan struct{} // capacity 1: the link is down, or there is news of the voter
	pause backoff
	told  string // what the node has been told last

	mu     sync.Mutex
	conn   vote.Conn    // the link; zero while there is none
	since  vote.Instant // when it came up, by the slow clock
	steady bool         // the last link had lasted
	over   bool         // it isn't wanted any more
}

// up notes a link; false means that it isn't wanted any more.
func (d *dialer) up(c vote.Conn) bool {
	now := d.m.clocks.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return false
	}
	d.conn, d.since = c, now.Slow
	return true
}

// end says that the voter isn't wanted any more, and returns the link that is to be closed; zero while there is none.
func (d *dialer) end() vote.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	return d.conn
}

// down is called by the loop when the node has been told that a connection is gone.
func (d *dialer) down(now vote.Now, c vote.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != c {
		return // one that the voter has dialed
	}
	d.conn, d.steady = 0, now.Slow.Sub(d.since) >= steadyAfter
	kick(d.wake)
	kick(d.m.greeter.wake)
}

func (d *dialer) linked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn != 0
}

func (d *dialer) wasSteady() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steady
}

// run works until ctx ends.
func (d *dialer) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := d.try(ctx); err != nil {
			if ctx.Err() == nil {
				d.report(err)
				d.m.sleep(ctx, d.pause.pause(), d.wake)
			}
			continue
		}
		d.told = ""
		for d.linked() && ctx.Err() == nil {
			select {
			case <-d.wake:
			case <-ctx.Done():
			}
		}
		if d.wasSteady() {
			d.pause.reset()
		} else {
			d.m.sleep(ctx, d.pause.pause(), nil)
		}
	}
}

// errUnknown : there is no address to dial.
var errUnknown = errors.New("address unknown: gossip has not seen it, and no peer that was greeted has its name")

// try dials the voter at each of its addresses, until one is right.
func (d *dialer) try(ctx context.Context) error {
	addrs, shunned := d.m.book.find(d.voter)
	if shunned != nil {
		return &transport.RefusedError{Reason: shunned.reason, Text: shunned.text}
	}
	worst := errUnknown
	for i, addr := range addrs {
		err := d.dial(ctx, addr)
		if err == nil || ctx.Err() != nil {
			return err
		}
		var refused *transport.RefusedError
		if i == 0 || errors.As(err, &refused) {
			worst = err
		}
	}
	return worst
}

func (d *dialer) dial(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	_, err := d.m.links.Dial(ctx, addr, d.voter)
	var op *net.OpError
	switch {
	case errors.As(err, &op):
		return fmt.Errorf("%s: %w", addr, op.Err) // without our own port, which is another each time
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %v", addr, dialTime)
	}
	return err
}

// report tells the node why the voter can't be had, and the log if that is a refusal; once for each change.
func (d *dialer) report(err error) {
	if d.told == err.Error() {
		return
	}
	d.told = err.Error()
	box := d.m.loop.box
	var refused *transport.RefusedError
	if !errors.As(err, &refused) {
		d.m.log.Info("a voter can't be reached; will keep trying", "voter", d.voter, "error", err)
		box.post(false, func(now vote.Now) { d.m.loop.failed(now, d, vote.ReasonNone, err.Error()) })
		return
	}
	d.m.log.Warn("a voter refuses this node", "voter", d.voter, "reason", refused.Reason, "text", refused.Text)
	box.post(false, func(now vote.Now) { d.m.loop.failed(now, d, refused.Reason, refused.Text) })
}
