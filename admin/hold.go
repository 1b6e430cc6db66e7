package admin

import (
	"encoding/json"
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
	defer release(lease)
	if err := x.ctx.Err(); err != nil {
		return err // the client doesn't know of the lease
	}
	if err := x.stream("application/jsonl"); err != nil {
		return err
	}
	if c.renewed = ttl; ttl == 0 {
		_, c.renewed = x.h.ttls()
	}
	return x.hearts(c)
}

// hearts writes lines until the lease or the connection ends.
func (x *exchange) hearts(c *clientLease) error {
	lease := c.lease
	if err := x.line(c, "held", nil, nil); err != nil {
		return err
	}
	// A quarter of the time left of a new lease: a client that takes a missing line for the loss of
	// the lease shouldn't do so because of a single late line.
	pause := min(max(time.Until(lease.Deadline())/4, holdBeatLeast), holdBeatTime)
	beat := time.NewTicker(pause)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-lease.Done():
			return x.line(c, "end", nil, holdEnd(lease.Err()))
		case r := <-lease.Revoked():
			err = x.line(c, "revoked", (*Revocation)(&r), nil)
		case <-beat.C:
			if lost := lease.Err(); lost != nil {
				return x.line(c, "end", nil, holdEnd(lost))
			}
			err = x.line(c, "alive", nil, nil)
		case <-x.ctx.Done():
			if !isStopping(x.ctx) {
				return nil // the client is gone
			}
			return x.farewell(c)
		}
		if err != nil {
			return err
		}
	}
}

// farewell tells the client about the stop of the server, and gives the client stopGrace to end its
// work and close the connection, before the key is released.
func (x *exchange) farewell(c *clientLease) error {
	err := x.line(c, "end", nil, errorOf(failure(ErrStopping, "the server stops, and releases the key within %v", stopGrace)))
	if err != nil {
		return err
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-grace.C:
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

func (x *exchange) line(c *clientLease, event string, r *Revocation, f *Error) error {
	lease, deadline := c.lease, c.lease.Deadline()
	data, err := json.Marshal(HoldLine{
		Event: event, ID: c.id, Key: lease.Key(), Token: lease.Token(), Node: x.h.mesh.Name(), Mode: lease.Mode().String(), Slot: lease.Slot(),
		TTLMS: c.renewed.Milliseconds(), Deadline: deadline.UTC(), LeftMS: until(deadline), Revocation: r, Failure: f,
	})
	if err != nil {
		return err
	}
	return x.send(append(data, '\n'))
}
