package admin

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/lockmesh/lockmesh"
)

// hold holds a key as long as the connection lives. The node renews the lease; the client reads a
// line when the key is held, and further lines while the key is still held.
func (x *exchange) hold() error {
	var opts []lockmesh.Option
	var ttl time.Duration
	if x.query.Has("ttl") {
		var err error
		if ttl, err = x.duration("ttl", 0, x.h.longestTTL()); err != nil {
			return err
		}
		opts = append(opts, lockmesh.WithTTL(ttl))
	}
	off, err := x.untilNodeEnds()
	if err != nil {
		return err
	}
	defer off()
	give, err := x.h.holds.take(true)
	if err != nil {
		return err
	}
	defer give()
	lease, err := x.acquire(opts...)
	if err != nil {
		return err
	}
	c := x.h.leases.add(lease, 0, func() {})
	view := &clientView{}
	defer letGo(lease, view)
	if err := x.ctx.Err(); err != nil {
		return err // the client doesn't know of the lease
	}
	if err := x.stream("application/jsonl"); err != nil {
		return err
	}
	if c.renewed = ttl; ttl == 0 {
		_, c.renewed = x.h.ttls()
	}
	err = x.hearts(c, view)
	if view.closed = x.closedByClient() && !errors.Is(err, os.ErrDeadlineExceeded); view.closed && !view.ended {
		x.lastLine(c)
	}
	return err
}

// lastLine tells a client that has closed only its own side of the connection that the key is about
// to be released. A client that reads nothing delays the release by lastLineTime at most.
func (x *exchange) lastLine(c *clientLease) {
	end := errorOf(failure(lockmesh.ErrReleased, "the request has ended, as by a client that closes its side of the connection, which releases the key"))
	if data, err := json.Marshal(x.lineOf(c, time.Now(), "end", nil, end)); err == nil {
		_ = x.sendWithin(append(data, '\n'), lastLineTime) // most such clients are gone
	}
}

// clientView is what the client of a hold knows about the lease.
type clientView struct {
	deadline time.Time // in the last line; until then the client counts on the key
	closed   bool      // the client has closed the connection, and counts on nothing
	ended    bool      // the last line was an end
}

// closedByClient reports whether the client has closed the connection, and so has ended its work.
func (x *exchange) closedByClient() bool {
	switch {
	case x.r.Context().Err() == nil, x.conn.hasVanished():
		return false
	case x.conn == nil && isStopping(x.ctx):
		return false // perhaps the application closes its http.Server
	}
	return true
}

// letGo releases the key of a hold once the client doesn't count on the key any more: at once, or
// by a timer, which may outlive the request.
func letGo(lease *lockmesh.Lease, view *clientView) {
	left := time.Until(view.deadline)
	if view.closed || left <= 0 || lease.Err() != nil {
		release(lease)
		return
	}
	time.AfterFunc(left, func() { release(lease) })
}

// hearts writes lines until the lease or the connection ends.
func (x *exchange) hearts(c *clientLease, view *clientView) error {
	lease := c.lease
	if err := x.line(c, view, "held", nil, nil); err != nil {
		return err
	}
	// A quarter of the time left of a new lease: a client that takes a missing line for the loss of
	// the lease shouldn't do so because of a single late line.
	pause := min(max(time.Until(lease.KeptUntil())/4, holdBeatLeast), holdBeatTime)
	beat := time.NewTicker(pause)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-lease.Done():
			return x.line(c, view, "end", nil, holdEnd(lease.Err()))
		case r := <-lease.Revoked():
			err = x.line(c, view, "revoked", (*Revocation)(&r), nil)
		case <-beat.C:
			if lost := lease.Err(); lost != nil {
				return x.line(c, view, "end", nil, holdEnd(lost))
			}
			err = x.line(c, view, "alive", nil, nil)
		case <-x.ctx.Done():
			if !isStopping(x.ctx) {
				return nil // the client is gone
			}
			return x.farewell(c, view)
		}
		if err != nil {
			return err
		}
	}
}

// farewell tells the client about the stop of the server, and waits until the client has ended its
// work and closed the connection. The key is kept until then, and until the deadline in the line at
// most: the line may reach the client late, and the client may need its time to end.
func (x *exchange) farewell(c *clientLease, view *clientView) error {
	end := failure(ErrStopping, "the server stops: end the work, and close the connection; "+
		"the key is kept until then, or until the lease's deadline")
	if err := x.line(c, view, "end", nil, errorOf(end)); err != nil {
		return err
	}
	limit := time.NewTimer(min(time.Until(view.deadline), farewellTime))
	defer limit.Stop()
	select {
	case <-limit.C:
	case <-x.r.Context().Done():
	case <-c.lease.Done():
	}
	return nil
}

// holdEnd describes the end of a lease. The client of the hold has ended its connection if it has
// released the lease itself, so only another end is told.
func holdEnd(err error) *Error {
	e := errorOf(err)
	if e.Code == "released" {
		e.Message = "the key was released by its id, or by the end of the node: " + e.Message
	}
	return e
}

// line writes a line about the lease, and notes the deadline of which the client knows by the line.
func (x *exchange) line(c *clientLease, view *clientView, event string, r *Revocation, f *Error) error {
	deadline := c.lease.KeptUntil()
	data, err := json.Marshal(x.lineOf(c, deadline, event, r, f))
	if err != nil {
		return err
	}
	if err := x.send(append(data, '\n')); err != nil {
		return err
	}
	view.deadline, view.ended = deadline, event == "end"
	return nil
}

func (x *exchange) lineOf(c *clientLease, deadline time.Time, event string, r *Revocation, f *Error) HoldLine {
	lease := c.lease
	return HoldLine{
		Event: event, ID: c.id, Key: lease.Key(), Token: lease.Token(), Node: x.h.mesh.Name(), Mode: lease.Mode().String(), Slot: lease.Slot(),
		TTLMS: c.renewed.Milliseconds(), Deadline: deadline.UTC(), LeftMS: until(deadline), Revocation: r, Failure: f,
	}
}
