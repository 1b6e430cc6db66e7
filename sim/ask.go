package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Ask is one request of a client, with all that is drawn for it.
type Ask struct {
	At       time.Duration // when the client comes, in the world's time; it waits while its process is stopped, and gives up if that is dead
	Node     string
	Key      string
	Try      bool
	Patience time.Duration // after which it gives up if it waits still; zero for never
	Hold     time.Duration // for how long it wants the lease
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
	r := w.ask(p, w.keyOf(vote.Key(a.Key)), a.Try)
	if r == nil {
		return false
	}
	w.asks = append(w.asks, a)
	r.client, r.hold = i, a.Hold
	c := &p.clients[i]
	c.r, c.due = r, never
	if a.Patience > 0 {
		w.plan(p, i, a.Patience) // it may be granted before: then this becomes the time to give back
	}
	w.settle(p)
	return true
}
