package sim

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// bars reports whether two leases of a key may not be held at the same time.
func (r *Request) bars(o *Request) bool { return r.barsIn(r.Slot, o, o.Slot) }

// barsIn is the same for leases in slots that may not be theirs yet.
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

// upgrades reports whether a request is to take the place of another.
func (r *Request) upgrades(o *Request) bool { return r.base == o && o.Mode == vote.Shared }

// guard is by how much a lease ends before its votes.
func (r *Request) guard() time.Duration {
	if r.Ask.Length > 0 {
		return vote.Guard(r.Ask.Length)
	}
	return vote.Guard(r.p.host.ttl)
}

// isVoted reports whether a vote is for this lease.
func (r *Request) isVoted(m vote.Mode, s vote.Slot, t vote.Token) bool {
	return s == r.Slot && t >= r.last() && (m == r.Mode || m == vote.Exclusive && r.Mode == vote.Shared) // voters hear late that it is shared
}

// keptUntil is how long a lease keeps others from the key at least, in the world's time: while somebody may believe in it, a delay after it
// ended without being given back, and as long as it was to be held at least. Voters' clocks may run fast by the bound, and the holder's slow.
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

// checkExclusion demands that a new lease may be held beside all that are, and that no lease before keeps the key from it.
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

// checkLength demands that a lease ends in time by itself.
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

// checkToken demands that a new lease's tokens be larger than those of each lease that was granted before it was asked for, of each exclusive one and
// each in the same slot; an exclusive one's larger than all; and that no two leases of a key have a token in common: each has a run of them. But for the
// last resort of protocol.md. Beyond what exclusion may assume, a node may learn long after that it has won, so there only leases count that were
// granted before this one was asked for.
func (w *World) checkToken(r *Request) (excused bool) {
	k := r.key
	defer func() { k.passed = r }()
	if r.passedOn() {
		w.checkPassedOn(r)
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
	i, _ := slices.BinarySearch(k.runs, r.Token) // the first run that ends there or later
	meets := !behind && i < len(k.runs) && k.runs[i] < r.Token+2*vote.Run-1
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
		// Every later majority has a member that confirmed this token, so the excuse is used up; but for what shares the key, or, beyond what exclusion
		// may assume, learns late that it has won, and was asked for before: its votes may be older.
		k.excused, k.forgiven = false, w.Now()
	}
	return behind
}

// last is the largest token of a lease's run.
func (r *Request) last() vote.Token { return r.top }

// seats notes by which number voters know a lease, and its run. One that was passed on has what is left of the run of the one before.
func (w *World) seats(r *Request) {
	p := r.p
	r.seat = p.m.Seat(r.Number)
	if r.passedOn() {
		r.top = p.runs[r.seat]
		w.fig.PassedOn++
		return
	}
	r.top = r.Token + vote.Run - 1
	p.runs[r.seat] = r.top
}

// passedOn reports whether a lease was passed on among the callers of its node.
func (r *Request) passedOn() bool { return r.seat != r.Number }

// checkPassedOn demands that a lease that was passed on has the next token of a run of which no newer lease knows.
func (w *World) checkPassedOn(r *Request) {
	k := r.key
	if w.opt.TokensOnly && r.Token <= r.top { // another may have been granted it meanwhile
		return
	}
	if before := k.passed; before == nil || before.p != r.p || before.seat != r.seat || r.Token != before.Token+1 || r.Token > r.top || k.last != r.top {
		w.violate(checkTokens, "%s passes %q on with token %d of a run up to %d, after %+v, and the newest run ends at %d", r.Node, k.name, r.Token,
			r.top, before, k.last)
	}
}

// stands returns until when a vote stands that its owner doesn't give back, by the voter's slow clock.
func (s *said) stands(v *spoken) vote.Instant {
	until := v.until
	if until == 0 {
		until = s.until[v.owner]
	}
	return until.Add(v.r.Ask.Delay)
}

// lasts hears a voter's word that a vote lasts for its lease's length from now, or has outlasted that.
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

// checkRefusal demands a reason for a refusal that the world can see.
func (w *World) checkRefusal(r *Request) {
	other := func(is func(o *Request) bool) bool {
		for _, p := range w.bySession { // voters don't know at once who is dead
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
