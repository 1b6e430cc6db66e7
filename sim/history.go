package sim

import (
	"iter"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/check"
)

// histories feeds [check.History] with the calls of the users of a world.
type histories struct {
	w    *World
	hist *check.History // nil when no history is kept
}

func (hs *histories) setUp() {
	if o := &hs.w.opt; o.History {
		hs.hist = &check.History{Report: hs.w.judge.violate, Rests: 2*o.MaxTTL + servedFixed, Remembered: hs.w.rememberedFor()}
	}
}

// rememberedFor returns for how long a voter may know of an ended lease: a session, a delay, and
// the messages in flight.
func (w *World) rememberedFor() time.Duration { return 4*w.opt.MaxTTL + servedFixed }

// granted records a lock call that has returned.
func (hs *histories) granted(r *Request, excused bool) {
	if hs.hist != nil {
		hs.hist.Granted(hs.w.now, hs.w.order.faultFreeSince(), &r.Lease, excused)
	}
}

// over records the end of a request, before the request's state changes.
func (hs *histories) over(r *Request, s State) {
	if hs.hist == nil {
		return
	}
	// A TryLock of a node with an old electorate may answer "taken" for a lease with an end that
	// only newer voters have confirmed. Exclusion holds. And a TryLock that has used up its time
	// may have met other waiting requests instead.
	taken := s == Failed && r.Try && !hs.isBehind(r.p) && r.Wait.Reason == quorum.WaitHeld &&
		r.p.clock.fastAt(hs.w.now).Sub(r.asked) < min(r.p.host.ttl, r.p.host.least)
	hs.hist.Over(hs.w.now, &r.Lease, s, taken)
}

// shared records that an exclusive lease was downgraded.
func (hs *histories) shared(r *Request) {
	if hs.hist != nil {
		hs.hist.Shared(hs.w.now, &r.Lease)
	}
}

// isBehind reports whether a process doesn't know the newest electorate.
func (hs *histories) isBehind(p *process) bool {
	if hs.w.opt.ByCount != nil {
		return hs.w.population.isBehindByCount(p)
	}
	return hs.w.opt.Dynamic != nil && p.knew < hs.w.dynamic.newest
}

// checkHistory searches for an order of all calls on each key.
func (hs *histories) checkHistory() {
	if hs.hist == nil || hs.w.opt.TokensOnly {
		return
	}
	for _, h := range hs.w.hosts {
		if h.p == nil {
			continue
		}
		for n := range h.p.asked {
			if r := h.p.requests[vote.Number(n)]; r != nil {
				hs.hist.Pending(hs.w.now, &r.Lease)
			}
		}
	}
	mixed := func(key string) bool { return hs.w.judge.keyOf(vote.Key(key)).mixed }
	calls, undecided := hs.hist.Check(hs.w.now, hs.w.order.faultFreeSince(), mixed, hs.w.judge.requests())
	hs.w.fig.Calls += calls
	hs.w.fig.Undecided += undecided
}

// requests returns all requests of a run, those of dead processes too, in any order.
func (j *judge) requests() iter.Seq[*check.Lease] {
	return func(yield func(*check.Lease) bool) {
		for _, p := range j.bySession {
			for _, r := range p.asked[1:] {
				if !yield(&r.Lease) {
					return
				}
			}
		}
	}
}
