package sim

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// bars reports whether two leases of a key exclude each other.
func (r *Request) bars(o *Request) bool { return r.barsIn(r.Slot, o, o.Slot) }

// barsIn is bars for the given slots, which the leases need not have been granted yet.
func (r *Request) barsIn(slot vote.Slot, o *Request, other vote.Slot) bool {
	if r.upgrades(o) || o.upgrades(r) {
		return false
	}
	switch {
	case r.Mode != o.Mode || r.Mode == vote.Exclusive:
		return true
	case r.Mode == vote.Permit:
		return slot == other || r.Ask.Permits != o.Ask.Permits
	}
	return false
}

// upgrades reports whether r is an upgrade of the shared lease o, and so takes o's place when
// granted.
func (r *Request) upgrades(o *Request) bool { return r.base == o && o.Mode == vote.Shared }

// guard returns how much earlier a lease ends than its votes.
func (r *Request) guard() time.Duration {
	if r.Ask.Length > 0 {
		return vote.Margin(r.Ask.Length)
	}
	return vote.Margin(r.p.host.ttl)
}

// isVoted reports whether a vote with the given mode, slot and token is for the lease r.
func (r *Request) isVoted(m vote.Mode, s vote.Slot, t vote.Token) bool {
	// An exclusive vote may be for a shared lease: voters learn late of a downgrade.
	return s == r.Slot && t >= r.last() && (m == r.Mode || m == vote.Exclusive && r.Mode == vote.Shared)
}

// keptUntil returns until when, in the world's time, a lease keeps others from the key at least:
// until the lease ends, unless it was given back; for its delay after an end without a release; and
// for its minimum hold. Voters' clocks may run fast by the bound, and the holder's clock slow, so
// voters may end a delay or a minimum hold earlier by the drift allowance.
func (r *Request) keptUntil() (until Moment) {
	if !r.given {
		until = r.endAt.add(r.Ask.Delay - vote.Drift(r.Ask.Delay))
		if r.Ask.Delay == 0 {
			until = r.endAt
		}
	}
	if d := r.Ask.MinHold; d > 0 {
		until = max(until, Moment(r.Had).add(d-vote.Drift(d)))
	}
	return until
}

// checkExclusion demands that a new lease is compatible with all leases that are held, and that no
// ended lease still keeps the key from the new lease.
func (w *World) checkExclusion(r *Request) {
	k := r.key
	if r.Mode == vote.Permit && (r.Slot == 0 || r.Slot > vote.Slot(r.Ask.Permits)) {
		w.violate(checkExclusion, "%s is granted %q in slot %d of %d", r.Node, k.name, r.Slot, r.Ask.Permits)
		return
	}
	for _, o := range k.holds {
		if !w.believes(o) || !r.bars(o) {
			continue
		}
		w.fig.Overlaps++
		if w.opt.TokensOnly {
			continue
		}
		w.violate(checkExclusion, "%s is granted %q (%v, slot %d) with token %d while %s holds it (%v, slot %d) with token %d, for %v more", r.Node,
			k.name, r.Mode, r.Slot, r.Token, o.Node, o.Mode, o.Slot, o.Token, o.p.left(w.now, o.end))
		if w.failed != nil {
			return
		}
	}
	k.past = slices.DeleteFunc(k.past, func(o *Request) bool { return o.keptUntil() <= w.now })
	if w.opt.TokensOnly {
		return
	}
	for _, o := range slices.Concat(k.holds, k.past) {
		if r.bars(o) && !w.believes(o) && o.keptUntil() > w.now {
			w.violate(checkRest, "%s is granted %q with token %d, which %s's lease with token %d, granted at %v, keeps from it for %v more", r.Node,
				k.name, r.Token, o.Node, o.Token, o.Had, time.Duration(o.keptUntil()-w.now))
			return
		}
	}
}

// checkLength demands that a lease ends by itself within its length, or within its session's TTL. A
// fixed lease must not be extended.
func (w *World) checkLength(r *Request) {
	fast, most := r.p.clock.fastAt(w.now), r.p.host.ttl
	if r.Ask.Length > 0 {
		most = r.Ask.Length
	}
	switch {
	case r.end > fast.Add(most):
		w.violate(checkLength, "%s's lease of %q is to last for %v, and at most %v is right", r.Node, r.Key, r.end.Sub(fast), most)
	case r.Ask.Fixed && r.Ask.Length > 0 && r.end > r.fixed:
		w.violate(checkLength, "%s's lease of %q isn't to be extended, and lasts %v too long", r.Node, r.Key, r.end.Sub(r.fixed))
	}
}

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
func (w *World) checkToken(r *Request) (excused bool) {
	k := r.key
	defer func() { k.passed = r }()
	if r.passedOn() {
		w.checkPassedOn(r)
		if o := k.outOfOrder(r); w.opt.TokensOnly && k.excused && o != nil && o.last() > r.last() {
			// The block's first lease was asked for before o was granted, so the block's smaller
			// tokens weren't out of order yet. For r they are, by the same excuse.
			k.topped(r, true)
			k.excused, k.forgiven = false, w.Now()
			return true
		}
		r.era = k.era
		return false
	}
	before := max(k.alone, k.slots[r.Slot])
	switch o := k.outOfOrder(r); {
	case w.opt.TokensOnly:
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
		case k.excused, (r.Mode != vote.Exclusive || w.opt.TokensOnly) && r.Asked < k.forgiven:
			w.fig.Excused++
		case meets && w.opt.TokensOnly:
		case meets:
			w.violate(checkTokens, "%s is granted %q with tokens %d to %d, and another lease has them up to %d", r.Node, k.name, r.Token, r.last(), k.runs[i])
			return false
		default:
			w.violate(checkTokens, "%s is granted %q with token %d after %d", r.Node, k.name, r.Token, before)
			return false
		}
	}
	if k.topped(r, behind) && k.excused {
		// Every later majority has a member that confirmed this token, so the excuse is used up.
		// The excuse still holds for older requests that share the key or, beyond the assumptions
		// of exclusion, learn late that they have won: their votes may be older.
		k.excused, k.forgiven = false, w.Now()
	}
	return behind
}

// last returns the largest token of a lease's token block.
func (r *Request) last() vote.Token { return r.top }

// seats records a lease's alias, the number under which voters know the lease, and the end of its
// token block. A handed-off lease has the rest of the previous lease's block.
func (w *World) seats(r *Request) {
	p := r.p
	r.seat = p.m.Seat(r.Number)
	if r.passedOn() {
		r.top = p.runs[r.seat]
		w.fig.PassedOn++
		return
	}
	r.top = r.Token + vote.BlockSize - 1
	p.runs[r.seat] = r.top
}

// passedOn reports whether a lease was handed off from another caller of the same node.
func (r *Request) passedOn() bool { return r.seat != r.Number }

// checkPassedOn demands that a handed-off lease has the next token of its block. No newer block of
// the key may have been granted.
func (w *World) checkPassedOn(r *Request) {
	k := r.key
	// Another node may have been granted the key meanwhile.
	if w.opt.TokensOnly && r.Token <= r.top {
		return
	}
	if before := k.passed; before == nil || before.p != r.p || before.seat != r.seat || r.Token != before.Token+1 || r.Token > r.top || k.last != r.top {
		w.violate(checkTokens, "%s passes %q on with token %d of a run up to %d, after %+v, and the newest run ends at %d", r.Node, k.name, r.Token,
			r.top, before, k.last)
	}
}

// stands returns until when, by the voter's slow clock, a vote binds the voter if its owner doesn't
// give the vote back.
func (s *said) stands(v *spoken) vote.Instant {
	until := v.until
	if until == 0 {
		until = s.until[v.owner]
	}
	return until.Add(v.r.Ask.Delay)
}

// lasts observes a voter's message about a vote: the vote lasts for its lease's length from now on,
// or has outlasted this length.
func (w *World) lasts(p *process, to vote.SessionID, m *vote.Message) {
	for _, k := range w.lockKeys {
		for _, s := range p.said.votes[k.name] {
			if s.owner != to || s.number != m.Number || s.serial != m.Serial {
				continue
			}
			if m.Kind == vote.KindExtended {
				s.until = p.clock.slowAt(w.now).Add(s.r.Ask.Length)
			} else if slow := p.clock.slowAt(w.now); slow < s.until {
				w.violate(checkWord, "%s says %v too early that request %d of %v has outlasted its length", p.host.alias, s.until.Sub(slow), m.Number, to)
			}
		}
	}
}

// checkRefusal demands a visible cause for a refusal: another upgrade, or a request for another
// number of permits.
func (w *World) checkRefusal(r *Request) {
	other := func(is func(o *Request) bool) bool {
		for _, p := range w.bySession { // dead processes too: voters learn late of a crash
			if slices.ContainsFunc(p.asked[1:], func(o *Request) bool { return o.key == r.key && o != r && is(o) }) {
				return true
			}
		}
		return false
	}
	switch r.Wait.Reason {
	case quorum.WaitClash:
		w.mark(MarkClash)
		if r.base == nil || !other(func(o *Request) bool { return o.base != nil }) {
			w.violate(checkRefusal, "%s's request %d of %q fails as another upgrade is older, and there is none", r.Node, r.Number, r.Key)
		}
	case quorum.WaitUnfit:
		w.mark(MarkUnfit)
		if !other(func(o *Request) bool { return o.Mode == vote.Permit && o.Ask.Permits != r.Ask.Permits }) {
			w.violate(checkRefusal, "%s's request %d of %q fails as others use another number of permits, and there are none", r.Node, r.Number, r.Key)
		}
	}
}
