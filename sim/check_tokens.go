package sim

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// tokenCheck demands that tokens rise.
type tokenCheck struct{ w *World }

// checkToken demands that the tokens of a new lease are larger than the tokens of
//
//   - each lease granted before the new lease was asked for,
//   - each exclusive lease, and each lease in the same slot,
//   - every lease of the key, if the new lease is exclusive;
//
// and that no two leases of a key share a token: each lease has its own token block. Only the last
// resort of protocol.md excuses smaller tokens; then checkToken returns true. Beyond the
// assumptions of exclusion (TokensOnly), a node may learn late that it has won. There, only leases
// count that were granted before the new lease was asked for.
func (tc *tokenCheck) checkToken(r *Request) (excused bool) {
	k := r.key
	defer func() { k.passed = r }()
	if r.passedOn() {
		tc.checkPassedOn(r)
		if o := k.outOfOrder(r); tc.w.opt.TokensOnly && k.excused && o != nil && o.last() > r.last() {
			// The block's first lease was asked for before o was granted, so the block's smaller
			// tokens weren't out of order yet. For r they are, by the same excuse.
			k.topped(r, true)
			k.excused, k.forgiven = false, tc.w.Now()
			return true
		}
		r.era = k.era
		return false
	}
	before := max(k.alone, k.slots[r.Slot])
	switch o := k.outOfOrder(r); {
	case tc.w.opt.TokensOnly:
		before = 0
		fallthrough
	default:
		if o != nil {
			before = max(before, o.last())
		}
	case r.Mode == vote.Exclusive:
		before = k.last
	}
	behind := r.Token <= before
	i, _ := slices.BinarySearch(k.runs, r.Token) // the first block that ends at r.Token or later
	meets := !behind && i < len(k.runs) && k.runs[i] < r.Token+2*vote.BlockSize-1
	if behind || meets {
		switch {
		case k.excused, (r.Mode != vote.Exclusive || tc.w.opt.TokensOnly) && r.Asked < k.forgiven:
			tc.w.fig.Excused++
		case meets && tc.w.opt.TokensOnly:
		case meets:
			tc.w.judge.violate(checkTokens, "%s is granted %q with tokens %d to %d, and another lease has them up to %d", r.Node, k.name, r.Token, r.last(), k.runs[i])
			return false
		default:
			tc.w.judge.violate(checkTokens, "%s is granted %q with token %d after %d", r.Node, k.name, r.Token, before)
			return false
		}
	}
	if k.topped(r, behind) && k.excused {
		// Every later majority has a member that confirmed this token, so the excuse is used up.
		// The excuse still holds for older requests that share the key or, beyond the assumptions
		// of exclusion, learn late that they have won: their votes may be older.
		k.excused, k.forgiven = false, tc.w.Now()
	}
	return behind
}

// last returns the largest token of a lease's token block.
func (r *Request) last() vote.Token { return r.top }

// seats records a lease's alias, the number under which voters know the lease, and the end of its
// token block. A handed-off lease has the rest of the previous lease's block.
func (tc *tokenCheck) seats(r *Request) {
	p := r.p
	r.seat = p.m.Seat(r.Number)
	if r.passedOn() {
		r.top = p.runs[r.seat]
		tc.w.fig.PassedOn++
		return
	}
	r.top = r.Token + vote.BlockSize - 1
	p.runs[r.seat] = r.top
}

// passedOn reports whether a lease was handed off from another caller of the same node.
func (r *Request) passedOn() bool { return r.seat != r.Number }

// checkPassedOn demands that a handed-off lease has the next token of its block. No newer block of
// the key may have been granted.
func (tc *tokenCheck) checkPassedOn(r *Request) {
	k := r.key
	// Another node may have been granted the key meanwhile.
	if tc.w.opt.TokensOnly && r.Token <= r.top {
		return
	}
	if before := k.passed; before == nil || before.p != r.p || before.seat != r.seat || r.Token != before.Token+1 || r.Token > r.top || k.last != r.top {
		tc.w.judge.violate(checkTokens, "%s passes %q on with token %d of a run up to %d, after %+v, and the newest run ends at %d", r.Node, k.name, r.Token,
			r.top, before, k.last)
	}
}

// runsApart is how many token blocks a voter may skip when it gives two shared leases different
// tokens (package lease).
const runsApart = 64

// checkBid compares a lease's token with the voters' clocks. A voter limits high-water marks to its
// own clock plus S, and each promise adds at most one token block to the highest token known, each
// confirmation at most runsApart blocks. So a requester's clock can't drive tokens further than the
// foremost voter's clock has ever shown.
func (tc *tokenCheck) checkBid(r *Request) {
	var foremost vote.Micros
	for _, i := range tc.w.net.route {
		h := tc.w.hosts[i]
		foremost = max(foremost, h.foremost, h.clock.at(tc.w.now).Wall)
	}
	most := vote.TokenAt(foremost+vote.Micros(vote.Skew.Microseconds())) + vote.BlockSize*vote.Token(tc.w.fig.Promises+runsApart*tc.w.fig.Confirmed) + 1
	if r.Token > most {
		tc.w.judge.violate(checkBids, "%s is granted %q with token %d, %v above what any voter's clock allows", r.Node, r.Key, r.Token,
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
		tc.w.marks.mark(MarkLastResort)
		tc.w.fig.ByClock += n - p.resorts
		p.resorts = n
		for _, k := range tc.w.judge.lockKeys {
			if v.Floor() < k.last {
				k.excused = true
			}
		}
	}
}
