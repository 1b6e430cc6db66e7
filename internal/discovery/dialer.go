package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/backoff"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
	"github.com/lockmesh/lockmesh/transport"
)

const (
	// dialPauseMin and dialPauseMax bound the pause before a voter is dialed again: short enough to
	// have a restarted voter back within a fraction of its quiet time, long enough to make a
	// permanently missing voter cost nothing.
	dialPauseMin = 50 * time.Millisecond
	dialPauseMax = time.Second

	// dialTimeout is the timeout of one dial. A voter with a slower answer is of no use at the
	// usual TTLs.
	dialTimeout = 3 * time.Second

	// steadyAfter is how long a link must have lasted for its end to count as an accident, after
	// which the voter is dialed at once. Links that end sooner are ended on purpose, again and
	// again.
	steadyAfter = time.Second
)

// Want keeps links to the named nodes, and to no others. names is sorted. Only the loop of the node
// calls Want, and the node's start before the loop runs, so Wait misses no goroutine.
func (f *Finder) Want(names []vote.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, d := range f.dialers {
		if _, wanted := slices.BinarySearch(names, name); wanted {
			continue
		}
		delete(f.dialers, name)
		d.stop()
		if c := d.end(); c != 0 {
			f.links.CloseConn(c)
		}
	}
	for _, name := range names {
		if f.dialers[name] != nil {
			continue
		}
		ctx, stop := context.WithCancel(f.ctx)
		d := &dialer{f: f, stop: stop, voter: name, wake: make(chan struct{}, 1), pause: backoff.Backoff{Least: dialPauseMin, Most: dialPauseMax}}
		if f.dialers == nil {
			f.dialers = make(map[vote.NodeID]*dialer)
		}
		f.dialers[name] = d
		f.work.Go(func() { d.run(ctx) })
		wakeup.Send(f.peers.wake)
	}
}

// Wants reports whether a link to a node is wanted.
func (f *Finder) Wants(name vote.NodeID) bool { return f.dialerOf(name) != nil }

// Links returns the nodes to which a link is wanted, and whether there is one now.
func (f *Finder) Links() map[vote.NodeID]bool {
	links := make(map[vote.NodeID]bool)
	for _, d := range f.allDialers() {
		links[d.voter] = d.linked()
	}
	return links
}

// LinkUp records a link that this node dialed; false means that the link isn't wanted any more.
func (f *Finder) LinkUp(c vote.Conn, name vote.NodeID) bool {
	d := f.dialerOf(name)
	return d != nil && d.up(c)
}

// LinkDown records the end of a connection, and has its node dialed again if this node had dialed
// the connection. The loop calls it after telling the core, so that the core learns of the end
// before the next link.
func (f *Finder) LinkDown(now vote.Now, c vote.Conn, name vote.NodeID) {
	if d := f.dialerOf(name); d != nil {
		d.down(now, c)
	}
}

// dialerOf returns a node's dialer; nil if no link to the node is wanted.
func (f *Finder) dialerOf(name vote.NodeID) *dialer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dialers[name]
}

// allDialers returns the dialers of all wanted nodes.
func (f *Finder) allDialers() []*dialer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.dialers))
}

// dialer keeps a link to one voter or, with dynamic membership, to another wanted node. A goroutine
// of its own runs the dialer.
type dialer struct {
	f        *Finder
	stop     context.CancelFunc // ends the goroutine
	voter    vote.NodeID
	wake     chan struct{} // capacity 1: the link is down, or there is news of the voter
	pause    backoff.Backoff
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
	now := d.f.cfg.Clocks.Now()
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
	wakeup.Send(d.wake)
	wakeup.Send(d.f.peers.wake)
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
				d.f.sleep(ctx, d.pause.Pause(), d.wake)
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
			d.pause.Reset()
		} else {
			d.f.sleep(ctx, d.pause.Pause(), nil)
		}
	}
}

// try dials the voter at each of its addresses until a dial succeeds.
func (d *dialer) try(ctx context.Context) error {
	addrs, refusal := d.f.book.find(d.voter)
	if refusal != nil {
		return &transport.RefusedError{Reason: refusal.reason, Text: refusal.text}
	}
	now := d.f.cfg.Clocks.Now().Slow
	if len(addrs) > 0 || d.noAddrSince == 0 {
		d.noAddrSince = now
	}
	worst := d.f.book.unknownError(now.Sub(d.noAddrSince))
	for i, addr := range addrs {
		err := d.dial(ctx, addr)
		var refused *transport.RefusedError
		switch {
		case ctx.Err() != nil:
			return err
		case err == nil:
			d.f.book.setDuplicate(d.voter, addr, false)
			return nil
		case errors.As(err, &refused):
			if refused.Reason == vote.ReasonNameTaken && refused.Peer == d.voter && d.f.book.setDuplicate(d.voter, addr, true) {
				wakeup.Send(d.f.peers.wake)
			}
			worst = err
		case i == 0:
			worst = err
		}
	}
	return worst
}

func (d *dialer) dial(ctx context.Context, addr string) error {
	giveBack, err := d.f.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	_, err = d.f.links.Dial(ctx, addr, d.voter)
	return unreachedError(addr, err, dialTimeout)
}

// unreachedError returns the error for an address, in words that stay the same at each try. timeout
// is that of the try.
func unreachedError(addr string, err error, timeout time.Duration) error {
	var op *net.OpError
	switch {
	case errors.Is(err, transport.ErrNoAnswer):
		return fmt.Errorf("%s: %w", addr, transport.ErrNoAnswer)
	case errors.As(err, &op):
		// without this node's own port, which differs each time
		return fmt.Errorf("%s: %w", addr, op.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %v", addr, timeout)
	}
	return err
}

// report tells the node why the voter can't be reached, and logs a refusal; once for each change.
func (d *dialer) report(err error) {
	if d.reported == err.Error() {
		return
	}
	d.reported = err.Error()
	var refused *transport.RefusedError
	if !errors.As(err, &refused) {
		d.f.cfg.Log.Debug("a voter can't be reached; will keep trying", "voter", d.voter, "error", err)
		d.f.cfg.Host.DialFailed(Failure{Node: d.voter, Text: err.Error(), dialer: d})
		return
	}
	d.f.cfg.Log.Warn("a voter refuses this node", "voter", d.voter, "reason", refused.Reason.String(), "text", refused.Text)
	reason := refused.Reason
	if d.f.cfg.Terms.Birth.Expect > 0 && (refused.Foreign || reason == vote.ReasonSecret) {
		// No voter of a mesh born by count comes back, and another process may have got the address
		// of a lost voter. This node knows the voters, so its own secret was right.
		reason = vote.ReasonNone
	}
	d.f.cfg.Host.DialFailed(Failure{Node: d.voter, Reason: reason, Text: refused.Text, dialer: d})
}
