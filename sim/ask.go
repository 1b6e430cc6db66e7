package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Ask is one request of a client, with all that is drawn for it.
type Ask struct {
	At       time.Duration // when the client comes, in the world's time; it waits while its process is stopped, and gives up if that is dead
	Node     string
	Key      string
	Try      bool
	Patience time.Duration // after which it gives up if it waits still; zero for never
	Hold     time.Duration // for how long it wants the lease

	Mode    vote.Mode     // exclusive if zero
	Permits uint16        // of the key, with mode Permit
	Length  time.Duration // of the lease, if not its node's session's
	Fixed   bool          // such a lease isn't extended
	Delay   time.Duration // for which the key is kept from others if the lease ends without being given back
	MinHold time.Duration // for which it is kept from them in any case, from when it was won
	Turn    time.Duration // after which a reader that holds it asks for it alone, and a writer lets others in beside it; zero for never
	Value   bool          // it gives the request a value, and another when it is granted
	Urge    bool          // whoever holds the key is asked for it
}

// The modes by the names that tests outside of this package write.
const (
	Exclusive = vote.Exclusive
	Shared    = vote.Shared
	Permit    = vote.Permit
)

// wish is what a node is told of a request.
func (a *Ask) wish(beside vote.Number) quorum.Ask {
	q := quorum.Exclusive(vote.Key(a.Key), a.Try)
	if a.Mode != 0 {
		q.Mode = a.Mode
	}
	q.Permits, q.Beside, q.Length, q.Fixed, q.Delay, q.MinHold = a.Permits, beside, a.Length, a.Fixed, a.Delay, a.MinHold
	if a.Value {
		q.Value = []byte("asks")
	}
	if a.Urge {
		q.Urge, q.Why = true, "in a hurry"
	}
	return q
}

// Asks returns the requests of a run up to now, as their clients drew them or as they were given. Requests of a scenario aren't among them.
func (w *World) Asks() []Ask { return append([]Ask{}, w.asks...) }

// setUpAsks arranges the requests that are given.
func (w *World) setUpAsks() {
	for i, a := range w.opt.Load.Asks {
		w.At(a.At, func() {
			if h := w.find(a.Node); h != nil && h.p != nil {
				w.push(event{at: w.now, kind: eventAsk, p: h.p, n: uint64(i)})
			}
		})
	}
}

// askOnce has a client come for one request.
func (w *World) askOnce(p *process, n int) {
	if w.draining {
		return
	}
	i := len(p.clients)
	p.clients = append(p.clients, client{once: true, due: never})
	w.want(p, i, w.opt.Load.Asks[n])
}

// want has a client ask. It reports whether the node has taken the request.
func (w *World) want(p *process, i int, a Ask) bool {
	r := w.ask(p, a, nil)
	if r == nil {
		return false
	}
	w.asks = append(w.asks, a)
	r.client, r.hold, r.turn = i, a.Hold, a.Turn
	c := &p.clients[i]
	c.r, c.due = r, never
	if a.Patience > 0 {
		w.plan(p, i, a.Patience) // it may be granted before: then this becomes the time to give back
	}
	w.settle(p)
	return true
}
