package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// tokenCheck knows the token blocks of leases, and demands that tokens keep to the voters' clocks.
// That tokens rise is demanded by [check.Tokens].
type tokenCheck struct{ w *World }

// setAlias records a lease's alias, the number under which voters know the lease, and the end of
// its token block. A handed-off lease has the rest of the previous lease's block.
func (tc *tokenCheck) setAlias(r *Request) {
	p := r.p
	r.Alias = p.m.Alias(r.Number)
	if r.HandedOff() {
		r.Last = p.runs[r.Alias]
		tc.w.fig.HandedOff++
		return
	}
	r.Last = r.Token + vote.BlockSize - 1
	p.runs[r.Alias] = r.Last
}

// blocksApart is how many token blocks a voter may skip when it gives two shared leases different
// tokens (package lease).
const blocksApart = 64

// checkBounds compares a lease's token with the voters' clocks. A voter limits high-water marks to
// its own clock plus S, and each promise adds at most one token block to the highest token known,
// each confirmation at most blocksApart blocks. So a requester's clock can't drive tokens further
// than the foremost voter's clock has ever shown.
func (tc *tokenCheck) checkBounds(r *Request) {
	var foremost vote.Micros
	for _, i := range tc.w.net.route {
		h := tc.w.hosts[i]
		foremost = max(foremost, h.foremost, h.clock.at(tc.w.now).Wall)
	}
	most := vote.TokenAt(foremost+vote.Micros(vote.Skew.Microseconds())) + vote.BlockSize*vote.Token(tc.w.fig.Promises+blocksApart*tc.w.fig.Confirmed) + 1
	if r.Token > most {
		tc.w.judge.violate(checkTokenBounds, "%s is granted %q with token %d, %v above what any voter's clock allows", r.Node, r.Key, r.Token,
			time.Duration(r.Token-most)*time.Microsecond)
	}
}

// resorted records that a voter took the highest token from its clock, before any consequence is
// judged: a lease may be granted in the same event.
func (tc *tokenCheck) resorted(p *process) {
	v := p.m.Voter()
	if v == nil {
		return
	}
	if n := v.Counters().LastResort; n != p.resorts {
		tc.w.marks.mark(markLastResort)
		tc.w.fig.ByClock += n - p.resorts
		p.resorts = n
		for _, k := range tc.w.judge.lockKeys {
			if v.MinToken() < k.tokens.Highest {
				k.tokens.Excused = true
			}
		}
	}
}
