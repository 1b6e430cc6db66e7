package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// dialPauseMin and dialPauseMax bound the pause before a voter is dialed again: short enough to have a
	// restarted voter back within a fraction of its quiet time, long enough to make a permanently
	// missing voter cost nothing.
	dialPauseMin = 50 * time.Millisecond
	dialPauseMax = time.Second

	// dialTimeout is the timeout of one dial. A voter with a slower answer is of no use at the usual
	// TTLs.
	dialTimeout = 3 * time.Second

	// steadyAfter is how long a link must have lasted for its end to count as an accident, after
	// which the voter is dialed at once. Links that end sooner are ended on purpose, again and
	// again.
	steadyAfter = time.Second
)

// dialers holds a dialer for each node to which a connection is wanted. The loop changes the set;
// any goroutine may read the set.
type dialers struct {
	m  *Mesh
	mu sync.Mutex
	by map[vote.NodeID]*dialer
}

// of returns a node's dialer; nil if no connection to the node is wanted.
func (s *dialers) of(name vote.NodeID) *dialer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[name]
}

// all returns all dialers.
func (s *dialers) all() []*dialer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.by))
}

// want keeps connections to the named nodes, and to no others. names is sorted. The loop calls
// want, and Join does so before the loop starts, so Close misses no goroutine.
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
		d := &dialer{m: s.m, stop: stop, voter: name, wake: make(chan struct{}, 1), pause: backoff{least: dialPauseMin, most: dialPauseMax}}
		if s.by == nil {
			s.by = make(map[vote.NodeID]*dialer)
		}
		s.by[name] = d
		s.m.work.Go(func() { d.run(ctx) })
		kick(s.m.peerProber.wake)
	}
}

// linkHandler passes the reports of the links to the loop. Goroutines of the transport call the
// methods.
type linkHandler struct{ m *Mesh }

var _ transport.Handler = linkHandler{}

// Linked reports a connection that this node dialed; on other connections the peer sends first. The
// report goes through the urgent lane, so no message of the connection overtakes it.
func (h linkHandler) Linked(c vote.Conn, peer vote.SessionID, dialed bool) {
	if !dialed {
		return
	}
	d := h.m.dialers.of(peer.Node)
	if d == nil || !d.up(c) { // no longer wanted
		h.m.loop.box.post(true, func(vote.Now) { h.m.loop.links.CloseConn(c) })
		return
	}
	h.m.loop.box.post(true, func(now vote.Now) { h.m.loop.linked(now, c, peer) })
}

func (h linkHandler) Received(c vote.Conn, peer vote.SessionID, b *transport.Batch) {
	h.m.loop.receive(c, peer, b)
}

// Closed reports the end of a connection. The report goes through the ordered lane, behind all
// messages of the connection. The voter is dialed again only after the node knows of the end.
func (h linkHandler) Closed(c vote.Conn, peer vote.SessionID, _ error) {
	h.m.loop.box.post(false, func(now vote.Now) {
		h.m.loop.node.Unlink(now, c)
		h.m.loop.electorate.dialsStale = true
		if d := h.m.dialers.of(peer.Node); d != nil {
			d.down(now, c)
		}
	})
}

// onGossip handles news of members. A goroutine of the group calls it.
func (m *Mesh) onGossip(e member.Event) {
	m.addressBook.addMember(e.Member)
	if at, err := netip.ParseAddrPort(e.Member.Addr); err == nil {
		m.links.Know(at.Addr())
	}
	switch e.Kind {
	case member.Joined, member.Updated:
		if d := m.dialers.of(e.Member.Name); d != nil {
			kick(d.wake)
		}
	case member.NameConflict:
		m.peerProber.reportDuplicate(e.Member)
		m.excludedProber.addExcluded(e.Member.Addr)
	}
	if m.membershipFeed != nil {
		kick(m.membershipFeed.wake)
	}
}

// dialer keeps a link to one voter or, with dynamic membership, to another wanted node. A goroutine
// of its own runs the dialer.
type dialer struct {
	m        *Mesh
	stop     context.CancelFunc // ends the goroutine
	voter    vote.NodeID
	wake     chan struct{} // capacity 1: the link is down, or there is news of the voter
	pause    backoff
	reported string // the error last reported to the node

	// since when the voter has had no known address, by the slow clock; zero before the first try
	noAddrSince vote.Instant

	mu       sync.Mutex
	conn     vote.Conn    // the link; zero while there is none
	since    vote.Instant // when the link came up, by the slow clock
	steady   bool         // the last link had lasted
	unwanted bool         // the connection is no longer wanted
}

// up records a link; false means that the link is no longer wanted.
func (d *dialer) up(c vote.Conn) bool {
	now := d.m.clocks.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unwanted {
		return false
	}
	d.conn, d.since = c, now.Slow
	return true
}

// end marks the connection as no longer wanted, and returns the link to be closed; zero if there is
// none.
func (d *dialer) end() vote.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unwanted = true
	return d.conn
}

// down records the end of a connection. The loop calls it after telling the node.
func (d *dialer) down(now vote.Now, c vote.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != c {
		return // the voter dialed this connection
	}
	d.conn, d.steady = 0, now.Slow.Sub(d.since) >= steadyAfter
	kick(d.wake)
	kick(d.m.peerProber.wake)
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
		d.reported = ""
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

// try dials the voter at each of its addresses until a dial succeeds.
func (d *dialer) try(ctx context.Context) error {
	addrs, refusal := d.m.addressBook.find(d.voter)
	if refusal != nil {
		return &transport.RefusedError{Reason: refusal.reason, Text: refusal.text}
	}
	now := d.m.clocks.Now().Slow
	if len(addrs) > 0 || d.noAddrSince == 0 {
		d.noAddrSince = now
	}
	worst := d.m.addressBook.unknownError(now.Sub(d.noAddrSince))
	for i, addr := range addrs {
		err := d.dial(ctx, addr)
		var refused *transport.RefusedError
		switch {
		case ctx.Err() != nil:
			return err
		case err == nil:
			d.m.addressBook.setDuplicate(d.voter, addr, false)
			return nil
		case errors.As(err, &refused):
			if refused.Reason == vote.ReasonNameTaken && refused.Peer == d.voter && d.m.addressBook.setDuplicate(d.voter, addr, true) {
				kick(d.m.peerProber.wake)
			}
			worst = err
		case i == 0:
			worst = err
		}
	}
	return worst
}

func (d *dialer) dial(ctx context.Context, addr string) error {
	defer d.m.dialSlots.acquire(ctx)()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	_, err := d.m.links.Dial(ctx, addr, d.voter)
	var op *net.OpError
	switch {
	case errors.Is(err, transport.ErrNoAnswer):
		return fmt.Errorf("%s: %w", addr, transport.ErrNoAnswer)
	case errors.As(err, &op):
		// without this node's own port, which differs each time
		return fmt.Errorf("%s: %w", addr, op.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %v", addr, dialTimeout)
	}
	return err
}

// report tells the node why the voter can't be reached, and logs a refusal; once for each change.
func (d *dialer) report(err error) {
	if d.reported == err.Error() {
		return
	}
	d.reported = err.Error()
	box := d.m.loop.box
	var refused *transport.RefusedError
	if !errors.As(err, &refused) {
		d.m.log.Debug("a voter can't be reached; will keep trying", "voter", d.voter, "error", err)
		box.post(false, func(now vote.Now) { d.m.loop.failed(now, d, vote.ReasonNone, err.Error()) })
		return
	}
	d.m.log.Warn("a voter refuses this node", "voter", d.voter, "reason", refused.Reason, "text", refused.Text)
	box.post(false, func(now vote.Now) { d.m.loop.failed(now, d, refused.Reason, refused.Text) })
}
