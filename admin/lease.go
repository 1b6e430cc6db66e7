package admin

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

// leases are the leases of clients, by id. A lease is held until the client releases the lease, or
// the ttl is over. Then the handler keeps the error for a while, so that the client learns the
// reason.
//
// No goroutine belongs to a lease: when the context of a lease ends, a short-lived goroutine moves
// the lease to the ended leases.
type leases struct {
	mu    sync.Mutex
	held  map[string]*clientLease
	ended map[string]error
	order []string // the ids of the ended leases, the oldest at next once there are maxEnded
	next  int
}

// clientLease is a lease of a client.
type clientLease struct {
	id    string
	lease *lockmesh.Lease
	// ended records the lease's end, once. The end of the lease's context calls ended, and so does
	// a handler that ends the lease, before its answer: after the answer the client may ask for the
	// next lease at once, and there must be room.
	ended func()
	// renewed is the length of a hold's lease; for the hold's own goroutine.
	renewed time.Duration
	// granted is the ttl of the grant: how long the voters keep the key at most after a crash of
	// this node.
	granted time.Duration

	mu  sync.Mutex
	ttl time.Duration // of the grant or the latest extension; zero for a hold, which its node renews
}

// span returns the ttl of the grant or the latest extension. A hold has none.
func (c *clientLease) span() (ttl time.Duration, has bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ttl, c.ttl != 0
}

func (c *clientLease) extended(ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ttl = ttl
}

// add keeps a lease until the lease ends, and then calls ended.
func (t *leases) add(lease *lockmesh.Lease, ttl time.Duration, ended func()) *clientLease {
	c := &clientLease{id: rand.Text(), lease: lease, granted: ttl, ttl: ttl}
	c.ended = sync.OnceFunc(func() {
		t.end(c)
		ended()
	})
	t.mu.Lock()
	if t.held == nil {
		t.held, t.ended = make(map[string]*clientLease), make(map[string]error)
	}
	t.held[c.id] = c
	t.mu.Unlock()
	context.AfterFunc(lease.Context(), func() { c.ended() })
	return c
}

func (t *leases) end(c *clientLease) {
	err := c.lease.Err()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, c.id)
	t.ended[c.id] = err
	if len(t.order) < maxEnded {
		t.order = append(t.order, c.id)
		return
	}
	delete(t.ended, t.order[t.next])
	t.order[t.next] = c.id
	t.next = (t.next + 1) % maxEnded
}

// find returns a held lease, or why there is none.
func (t *leases) find(id string) (*clientLease, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.held[id]; c != nil {
		return c, nil
	}
	if err := t.ended[id]; err != nil {
		return nil, err
	}
	return nil, failure(ErrUnknownLease, "no lease has the id: it ended long ago, or the process was started again since")
}

// wait waits until all leases have ended, or ctx has. A lease added meanwhile may be waited for.
func (t *leases) wait(ctx context.Context) error {
	for c := t.any(); c != nil; c = t.any() {
		select {
		case <-c.lease.Done():
			c.ended()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// any returns a held lease, or nil.
func (t *leases) any() *clientLease {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.held {
		return c
	}
	return nil
}

// untilNodeEnds has the request's context end when another request is about to end the node, until
// the returned function is called. The node gives no more time to its clients then.
func (x *exchange) untilNodeEnds() (off func() bool, err error) {
	if x.h.ending.Err() != nil {
		return nil, ErrStopping
	}
	return context.AfterFunc(x.h.ending, x.cancel), nil
}

func (x *exchange) lock() error {
	longest := x.h.longestTTL()
	ttl, err := x.duration("ttl", longest, longest)
	if err != nil {
		return err
	}
	off, err := x.untilNodeEnds()
	if err != nil {
		return err
	}
	defer off()
	give, err := x.h.slots.take(true)
	if err != nil {
		return err
	}
	lease, err := x.acquire(lockmesh.WithTTL(ttl), lockmesh.WithoutRenewal())
	if err != nil {
		give()
		return err
	}
	c := x.h.leases.add(lease, ttl, give)
	if err = x.ctx.Err(); err == nil {
		err = x.checkKept(c, ttl)
	}
	if err == nil {
		err = x.answerLease(c)
	}
	if err != nil {
		release(lease) // the client doesn't know of the lease
	}
	return err
}

// release ends a lease on behalf of an absent client.
func release(lease *lockmesh.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	_ = lease.Unlock(ctx) // the lease has ended in any case, and is over at the voters after its TTL
}

func (x *exchange) lease() error {
	c, err := x.heldLease()
	if err != nil {
		return err
	}
	return x.answerLease(c)
}

// heldLease returns the lease named by the path, while the lease is held.
func (x *exchange) heldLease() (*clientLease, error) {
	c, err := x.h.leases.find(x.param)
	if err != nil {
		return nil, err
	}
	return c, c.lease.Err()
}

func (x *exchange) extend() error {
	off, err := x.untilNodeEnds()
	if err != nil {
		return err
	}
	defer off()
	c, err := x.heldLease()
	if err != nil {
		return err
	}
	ttl, has := c.span()
	if !has {
		return failure(ErrRequest, "a hold lasts as long as its connection: there is nothing to extend")
	}
	longest := x.h.longestTTL() // less than before, if the voters have lowered MaxTTL
	if ttl, err = x.duration("ttl", min(ttl, longest), longest); err != nil {
		return err
	}
	if ttl > c.granted {
		// The client would work on after a crash of this node, beside the next holder.
		return failure(ErrRequest, "ttl: %v is longer than the %v for which the lock was taken, and the "+
			"voters keep the key no longer than that after a crash of the node; take the lock with the "+
			"longest ttl that you extend it to", ttl, c.granted)
	}
	if err := c.lease.Extend(x.ctx, ttl); err != nil {
		return err
	}
	if err := x.checkKept(c, ttl); err != nil {
		return err
	}
	c.extended(ttl)
	return x.answerLease(c)
}

// checkKept returns an error if the voters, since this handler last asked, have lowered MaxTTL
// below a ttl: a client that counted on the ttl would work on after a crash of this node, beside
// the next holder.
func (x *exchange) checkKept(c *clientLease, ttl time.Duration) error {
	if l := c.lease; l.Deadline().Sub(l.KeptUntil()) <= ttl/4 {
		return nil
	}
	if x.h.decided.forget(); ttl <= x.h.longestTTL() {
		return nil // the votes are old, since the network is slow, and the client is told the deadline
	}
	return failure(ErrRequest, "ttl: the voters keep a key no longer than %v after a crash of the node, since they have "+
		"lowered MaxTTL; ask for no more than that", x.h.longestTTL())
}

func (x *exchange) unlock() error {
	c, err := x.h.leases.find(x.param)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.ctx, releaseTime)
	defer cancel()
	if err := c.lease.Unlock(ctx); err != nil {
		return err
	}
	c.ended()
	return x.done()
}

// answerLease answers with the state of a lease, and with the requests to release the lease since
// the last such answer. Requests to release a hold go to the hold's own connection.
func (x *exchange) answerLease(c *clientLease) error {
	ttl, drains := c.span()
	l := c.lease
	deadline := l.KeptUntil()
	answer := Lease{
		ID: c.id, Key: l.Key(), Token: l.Token(), Node: x.h.mesh.Name(), Mode: l.Mode().String(), Slot: l.Slot(),
		TTLMS: ttl.Milliseconds(), Deadline: deadline.UTC(), LeftMS: until(deadline), Revocations: []Revocation{},
	}
	for drains {
		select {
		case r := <-l.Revoked():
			answer.Revocations = append(answer.Revocations, Revocation(r))
		default:
			drains = false
		}
	}
	return x.answer(http.StatusOK, answer)
}
