package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Ask is one request of a client with all its random parameters.
type Ask struct {
	// At is when the client asks, in world time. The client waits while its process is stopped, and
	// gives up if the process is dead.
	At       time.Duration
	Node     string
	Key      string
	Try      bool
	Patience time.Duration // how long to wait before giving up; zero for no limit
	Hold     time.Duration // how long the client wants the lease

	Mode    vote.Mode     // exclusive if zero
	Permits uint16        // of the key, with mode Permit
	Length  time.Duration // of the lease, if it differs from the session's TTL
	Fixed   bool          // a lease with a Length of its own isn't extended
	// Delay is how long the key is kept from other requests if the lease ends without a release.
	Delay time.Duration
	// MinHold is how long the key is kept from other requests in any case, counted from the grant.
	MinHold time.Duration
	// Turn is when a reader of the key asks for an upgrade, and a writer downgrades to shared; zero
	// for never.
	Turn time.Duration
	// Value attaches a value to the request, and another value once the lease is granted.
	Value  bool
	Revoke bool // holders of the key are asked to release the key
}

// The modes under the names used by tests outside of this package.
const (
	Exclusive = vote.Exclusive
	Shared    = vote.Shared
	Permit    = vote.Permit
)

// spec returns the request spec for the node.
func (a *Ask) spec(beside vote.Number) quorum.RequestOptions {
	q := quorum.Exclusive(vote.Key(a.Key), a.Try)
	if a.Mode != 0 {
		q.Mode = a.Mode
	}
	q.Permits, q.Beside, q.Length, q.Fixed, q.Delay, q.MinHold = a.Permits, beside, a.Length, a.Fixed, a.Delay, a.MinHold
	if a.Value {
		q.Value = valueOf(1)
	}
	if a.Revoke {
		q.Revoke, q.Reason = true, "in a hurry"
	}
	return q
}

// Asks returns the requests of a run up to now, as drawn by the clients or as given. Requests of a
// scenario are not included.
func (w *World) Asks() []Ask { return append([]Ask{}, w.load.asks...) }

// setUpAsks schedules the requests given in Load.Asks.
func (ld *load) setUpAsks() {
	for i, a := range ld.w.opt.Load.Asks {
		ld.w.At(a.At, func() {
			if h := ld.w.faults.find(a.Node); h != nil && h.p != nil {
				ld.w.push(event{at: ld.w.now, kind: eventAsk, p: h.p, n: uint64(i)})
			}
		})
	}
}

// askOnce adds a client to a process and makes the client ask once.
func (ld *load) askOnce(p *process, n int) {
	if ld.draining {
		return
	}
	i := len(p.clients)
	p.clients = append(p.clients, client{once: true, due: never})
	ld.want(p, i, ld.w.opt.Load.Asks[n])
}

// want makes a client ask, and reports whether the node accepted the request.
func (ld *load) want(p *process, i int, a Ask) bool {
	r := ld.ask(p, a, nil)
	if r == nil {
		return false
	}
	ld.asks = append(ld.asks, a)
	r.client, r.hold, r.turn = i, a.Hold, a.Turn
	c := &p.clients[i]
	c.r, c.due = r, never
	if a.Patience > 0 {
		// If the request is granted before, this becomes the time of the release.
		ld.plan(p, i, a.Patience)
	}
	ld.w.settle(p)
	return true
}
