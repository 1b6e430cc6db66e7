package resp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

// held is a key set by a client through this server: a lease of the mesh, and its end as known to
// the client. The holder of the key's lock of keyLocks owns value, revalued and timer.
//
// The lease is requested a little longer than the client's time, since a holder's lease ends before
// the voters' promise does, and a client counts on the whole time: a timer releases the key. A time
// close to MaxTTL leaves no room for more, so the lease is extended as soon as the rest of the time
// has room. (While the node can't reach the voters then, the key may be free before its time; the
// client's connection is cut before.)
type held struct {
	key    string
	lease  *lockmesh.Lease
	length time.Duration // of the client's SET; zero if the node renews the lease
	span   time.Duration // of the lease, as requested
	value  string
	// revalued is set once a script has given the key another value: the lease's token was given to
	// the client of the first value.
	revalued bool
	timer    *time.Timer // releases the key at its end, or extends the lease before
	give     func()      // gives the place among the server's leases back

	mu       sync.Mutex
	end      time.Time // when the key ends for the client; zero if the key has no end
	conn     *conn     // of the SET or the last extension
	kept     bool      // the lease may last by this node's doing alone, as its client accepts
	released bool      // by a command or at its end, so the end of the lease is no loss
}

// alive reports whether the key is still held for its client.
func (h *held) alive() bool {
	left, has := h.left()
	return (!has || left > 0) && h.lease.Err() == nil
}

// left returns how long the key lasts for its client; has is false if the key has no end.
func (h *held) left() (left time.Duration, has bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end.IsZero() {
		return 0, false
	}
	return time.Until(h.end), true
}

// leaseLeft returns how long the lease lasts without an extension: by the voters' doing, unless its
// client accepts that the node's end is the lease's.
func (h *held) leaseLeft() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.length == 0:
		return lockmesh.LongestTTL // renewed
	case h.kept:
		return time.Until(h.lease.Deadline())
	}
	return time.Until(h.lease.KeptUntil())
}

// isPromised reports whether the voters keep the key for the whole of a time that began with a call
// at an instant, unless the client accepts less. They don't if they have lowered MaxTTL.
func (h *held) isPromised(began time.Time, d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept || h.lease.KeptUntil().Sub(began) >= d-d/spanShare-spanExtra
}

func (h *held) stopTimer() {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}

// extendedBy notes the connection of an extension, and whether only this node keeps
// the lease from now on.
func (h *held) extendedBy(c *conn, kept bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conn, h.kept = c, h.kept || kept
}

// isKeptFor reports whether only this node keeps the lease, for a client of a call of Serve.
func (h *held) isKeptFor(set *conns) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept && h.conn.set == set
}

// leases are the keys set by clients through this server, by name.
type leases struct {
	mu   sync.Mutex
	held map[string]*held
}

func (t *leases) get(key string) *held {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held[key]
}

func (t *leases) put(h *held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		t.held = make(map[string]*held)
	}
	t.held[h.key] = h
}

// drop forgets a lease, unless the key has another already.
func (t *leases) drop(h *held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[h.key] == h {
		delete(t.held, h.key)
	}
}

func (t *leases) all() []*held {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*held, 0, len(t.held))
	for _, h := range t.held {
		all = append(all, h)
	}
	return all
}

func (t *leases) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held)
}

// find returns the key's lease through this server, or nil. A key is released if its time is over
// for the client while its lease still lasts. The caller holds the key's lock.
func (x *call) find(key string) *held {
	h := x.s.leases.get(key)
	if h == nil || h.alive() {
		return h
	}
	_ = x.s.release(x.ctx, h) // sent at least; the client's time is over in any case
	return nil
}

// spanFor returns the length of a lease lasting for d at its holder, if longest allows: the
// holder's lease ends about a fortieth before the voters' promise.
func spanFor(d, longest time.Duration) time.Duration {
	return max(min(d+d/spanShare+spanExtra, longest), d, lockmesh.MinTTL)
}

// grant takes a key for a client: for d, or until its release if d is zero. The error is
// ErrHeld if the key isn't free. The caller holds the key's lock.
func (s *Server) grant(x *call, key, value string, d time.Duration) (*held, error) {
	give, err := s.slots.take()
	if err != nil {
		return nil, err
	}
	give = sync.OnceFunc(give)
	longest := s.longest()
	h := &held{key: key, value: value, conn: x.conn, give: give, length: d, kept: s.allowLong && (d == 0 || d > longest)}
	opts := []lockmesh.Option{lockmesh.WithValue([]byte(value))}
	if d > 0 {
		h.span = spanFor(d, longest)
		opts = append(opts, lockmesh.WithTTL(h.span), lockmesh.WithoutRenewal())
	}
	began := time.Now()
	lease, err := s.mesh.TryLock(x.ctx, key, opts...)
	if err != nil {
		give()
		return nil, err
	}
	h.lease = lease
	if d > 0 {
		if !h.isPromised(began, d) {
			s.decided.forget()
			_ = lease.Unlock(x.ctx) // sent at least; the client doesn't know of the lease
			give()
			return nil, errLowered
		}
		s.endIn(h, began, d)
	}
	s.leases.put(h)
	context.AfterFunc(lease.Context(), func() { s.ended(h) })
	return h, nil
}

// setEnd has a key end d from now, as PEXPIRE does. The caller holds the key's lock.
func (s *Server) setEnd(x *call, h *held, d time.Duration) reply {
	beyond := h.length > 0 && d > h.length
	if beyond && !s.allowLong {
		return refused("%s is longer than the %s with which the key was set, and after a crash of this node the voters keep the key no "+
			"longer than that: set the key with the longest time that you extend it to, or allow long times at the server",
			millis(d), millis(h.length))
	}
	began := time.Now()
	if h.leaseLeft() < d {
		span := min(spanFor(d, h.span), h.span)
		if beyond {
			span = d
		}
		if err := h.lease.Extend(x.ctx, span); err != nil {
			return failed(err)
		}
		if !beyond && !h.isPromised(began, d) {
			s.decided.forget()
			return failed(errLowered)
		}
	}
	h.extendedBy(x.conn, beyond)
	s.endIn(h, began, d)
	return nil
}

// endIn has a key end for its client d after a command began: the voters promise no more. The end
// is kept by a clock without the steps of the wall clock. The caller holds the key's lock, or has
// not yet shown h to others.
func (s *Server) endIn(h *held, began time.Time, d time.Duration) {
	h.mu.Lock()
	h.end = began.Add(d)
	h.mu.Unlock()
	s.schedule(h)
}

// schedule sets the timer for the release of a key at its end, or for an extension before. The
// caller is as with endIn.
func (s *Server) schedule(h *held) {
	h.stopTimer()
	d, _ := h.left()
	switch left := h.leaseLeft(); {
	case left >= d:
		h.timer = time.AfterFunc(d, func() { s.expire(h) })
	case left > leastStretch:
		wait := d - (h.span-spanExtra)/(spanShare+1)*spanShare // until an extension covers the rest
		if wait <= 0 {
			wait = left / 16 // an extension has failed
		}
		h.timer = time.AfterFunc(min(wait+leastStretch, left/2), func() { s.stretch(h) })
	}
}

// expire releases a key at the end of its client's time. The timer of the key calls it.
func (s *Server) expire(h *held) {
	s.atTimer(h, func(ctx context.Context) {
		if !h.alive() {
			_ = s.release(ctx, h) // the release was sent, or the lease ends by itself
		}
	})
}

// stretch extends a lease too short for its client's time. The timer of the key calls it.
func (s *Server) stretch(h *held) {
	s.atTimer(h, func(ctx context.Context) {
		if d, _ := h.left(); h.alive() && h.leaseLeft() < d {
			_ = h.lease.Extend(ctx, min(spanFor(d, h.span), h.span)) // else the next timer tries again
			s.schedule(h)
		}
	})
}

// atTimer calls f under the lock of a key, while the key is held. There is no limit for the wait:
// each command ahead has its own, and commands and timers take turns.
func (s *Server) atTimer(h *held, f func(context.Context)) {
	unlock, err := s.locks.lock(context.Background(), h.key)
	if err != nil {
		return
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if s.leases.get(h.key) == h {
		f(ctx)
	}
}

// release ends a lease for its client. The lease is over whatever the error says. The caller holds
// the key's lock.
func (s *Server) release(ctx context.Context, h *held) error {
	h.mu.Lock()
	h.released = true
	h.mu.Unlock()
	h.stopTimer()
	s.leases.drop(h)
	h.give()
	return h.lease.Unlock(ctx)
}

// ended forgets an ended lease, and cuts its client's connection if the lease has ended
// before its time.
func (s *Server) ended(h *held) {
	s.leases.drop(h)
	h.give()
	h.mu.Lock()
	c, released := h.conn, h.released
	h.mu.Unlock()
	err := h.lease.Err()
	left, has := h.left()
	evicted := errors.Is(err, lockmesh.ErrEvicted)
	if released || has && !evicted && left <= leastStretch {
		return // at its end
	}
	s.log.Warn("a lease has ended before its time, and the connection of its client is cut", "key", h.key, "err", err)
	c.cut()
}

// gauge counts the leases, and the requests for leases.
type gauge struct {
	mu    sync.Mutex
	n     int
	limit int
}

// errLowered says that a key would last longer than the voters promise by now. A client that
// counted on the time would work on after a crash of this node, beside the next holder.
var errLowered = errors.New("the voters have lowered MaxTTL, and the time is longer than MaxTTL now: ask for less")

var errLimit = errors.New("too many keys are held through this server; release some, or raise its limit (WithMaxLeases)")

// take takes a place until the call of the returned function, which may be called only once.
func (g *gauge) take() (give func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n >= g.limit {
		return nil, errLimit
	}
	g.n++
	return g.give, nil
}

func (g *gauge) give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
}
