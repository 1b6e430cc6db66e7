package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A ghost is a vote whose request is gone, or whose session is, and which stands to an instant of its own all the same: the key is kept
// from others for a while after a lease (lock-delay, and a least time to hold), or the lease has a length of its own and outlives its
// node. The latter are promises like any other: none lasts longer than the maximum TTL after its owner's last word, so that the quiet time
// of a voter that has forgotten them outlasts them. A delay begins only where a lease ends, so it may end later than that; of voters that
// restart meanwhile it isn't remembered, and it may be cut short. Nobody holds the key then.

// within cuts a duration to what a voter can promise.
func (v *Voter) within(d time.Duration) time.Duration { return min(max(d, 0), v.cfg.MaxTTL) }

// stays returns until when an entry's vote stands after its end.
func (v *Voter) stays(e *entry, lapsed bool) (until vote.Instant) {
	x := e.extras
	if e.serial == 0 || x == nil {
		return 0
	}
	if x.minHold > 0 && (e.held || lapsed) {
		won := e.wonAt
		if !e.held || won == 0 {
			won = v.now.Slow // it may have won just now, and died before it could say so
		}
		until = won.Add(x.minHold + vote.Drift(x.minHold))
	}
	if lapsed && (x.delay > 0 || x.until > 0) {
		ended := max(v.now.Slow, x.until)
		if x.delay > 0 {
			ended = ended.Add(x.delay + vote.Drift(x.delay))
		}
		until = max(until, ended)
	}
	return until
}

// ghosts are kept by whose they were, so that none has to be searched for among a million of them. Of a shared key a request may have left several,
// one after the other.
type ghosts map[vote.SessionID]map[vote.Number][]*entry

func (h ghosts) add(g *entry) {
	of := h[g.s.id]
	if of == nil {
		of = make(map[vote.Number][]*entry)
		h[g.s.id] = of
	}
	of[g.number] = append(of[g.number], g)
}

func (h ghosts) remove(g *entry) {
	of := h[g.s.id]
	left := slices.DeleteFunc(of[g.number], func(o *entry) bool { return o == g })
	if of[g.number] = left; len(left) > 0 {
		return
	}
	if delete(of, g.number); len(of) == 0 {
		delete(h, g.s.id)
	}
}

// outliving returns the ghosts of a session whose own length isn't over, in order of their serials.
func (h ghosts) outliving(s vote.SessionID) []*entry {
	var all []*entry
	for _, of := range h[s] {
		for _, g := range of {
			if g.rare().length > 0 {
				all = append(all, g)
			}
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.serial, b.serial) })
	return all
}

// stream returns the newest stream on which a life has spoken whose ghosts are left; zero if none are. With a session goes the memory of its streams.
func (h ghosts) stream(s vote.SessionID) (newest vote.Stream) {
	for _, of := range h[s] {
		for _, g := range of {
			newest = max(newest, g.s.stream)
		}
	}
	return newest
}

// leaveGhost puts a ghost in the place of an entry's vote. If the lease was given back, or its own length is over, only the key rests; otherwise the
// lease may well go on.
func (v *Voter) leaveGhost(e *entry, until vote.Instant, lapsed bool) {
	g := v.copyOf(e)
	g.ghost, g.held = true, true
	x := v.extra(g)
	if !lapsed || x.until <= v.now.Slow {
		x.length = 0
	}
	x.ends, x.until = x.until, until
	e.key.votes.replace(e, g)
	e.s.ledger = e.s.ledger.Minus(vote.OfVote(e.serial))
	e.voteless()
	v.ghosts.add(g)
	v.remind(g, until)
}

// adopt gives a request that is stated anew the vote that it had, if that still stands as a ghost. One that its owner has given back
// meanwhile ends.
func (v *Voter) adopt(e *entry, yielded vote.Serial) bool {
	if len(v.ghosts) == 0 {
		return false
	}
	for _, g := range slices.Clone(v.ghosts[e.s.id][e.number]) {
		if g.key != e.key {
			continue
		}
		if g.serial <= yielded {
			v.exorcise(g)
			continue
		}
		v.ghosts.remove(g)
		e.serial, e.slot, e.want = g.serial, g.slot, 0
		v.votedAt(e, g.since)
		if g.wonAt != 0 {
			e.wonAt = min(g.wonAt, e.wonAt)
		}
		if !e.held {
			e.token = g.token
			if e.token < v.tokens.floor.Above() {
				e.token = v.propose(e.key, e.bid) // the floor may have come with another electorate meanwhile: see proposeAnew
				v.raise(e.key, e.token)
			}
		}
		had := g.rare()
		until := had.until
		switch {
		case e.rare().length == 0 || had.ends == 0:
			until = 0 // it lives by its session, until it is extended
		case had.ends > v.now.Slow:
			until = had.ends // what was to follow upon the end doesn't follow yet
		}
		g.key.votes.replace(g, e)
		e.s.ledger = e.s.ledger.Plus(vote.OfVote(e.serial))
		if had.timed != 0 {
			v.extra(e).timed = had.timed // the vote is the same, and so are its timers
		}
		if until != 0 {
			v.extra(e).until = until
			v.remind(e, until)
		}
		v.discard(g)
		e.key.forgetTaken() // it may not have won, after all
		return true
	}
	return false
}

// takeBack ends the ghost of an entry that is next in line, if nothing else keeps the key from it, and reports whether it did. The vote has outlasted its
// length, but the entry is there still, and its owner has said that it goes on, or hasn't won. Nobody else has had the key here since, and what is to follow
// upon the lease's end follows when that comes; so it needn't wait for its own rest.
func (v *Voter) takeBack(e *entry, spokenFor *slots) bool {
	if len(v.ghosts) == 0 {
		return false
	}
	var own *entry
	for _, f := range e.key.votes.all() {
		switch {
		case f.ghost && f.s.id == e.s.id && f.number == e.number && !spokenFor.has(f.slot):
			own = f
		case !e.bears(f):
			return false
		}
	}
	if own == nil {
		return false
	}
	v.ghosts.remove(own)
	v.unvote(own)
	v.discard(own)
	return true
}

// unstated ends what is left of a session's leases of their own length that its newest statement doesn't list: their owner has given them
// back, or may have lost them; what is to follow upon that follows now.
func (v *Voter) unstated(s *session) {
	for _, g := range v.ghosts.outliving(s.id) {
		if s.entries.m[g.number] != nil {
			continue
		}
		v.report(vote.Ended, g)
		x := v.extra(g)
		x.length, x.until = 0, 0 // what is left of the lease itself
		if x.until = v.stays(g, true); x.until <= v.now.Slow {
			v.exorcise(g)
		} else {
			v.remind(g, x.until)
		}
	}
}

// exorcise ends a ghost, which is no more then. By the voters' clocks it doesn't end everywhere at once. The next in line may wait for votes where it still stands, and that
// doesn't count as its tenure: otherwise it would be passed over here, and another one there.
func (v *Voter) exorcise(g *entry) {
	k := g.key
	v.ghosts.remove(g)
	if g.rare().length > 0 {
		v.report(vote.Ended, g)
	}
	token, exclusive := g.token, g.mode == vote.Exclusive && g.wonAt != 0
	v.grace = vote.Drift(v.now.Slow.Sub(g.since))
	v.unvote(g)
	if exclusive {
		k.over = max(k.over, token)
	}
	k.forgetTaken()
	v.attend(k)
	v.grace = 0
	if k.idleNow() {
		v.rest(k)
	}
	v.discard(g)
}

// extend has a vote last for its request's length from now.
func (v *Voter) extend(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil || e.rare().length == 0 || v.broken {
		return
	}
	if e.serial == 0 || e.serial != m.Serial {
		if e.dormant {
			e.dormant = false
			v.serve(e.key)
		}
		return
	}
	x := e.extras
	x.until = v.now.Slow.Add(x.length)
	v.remind(e, x.until)
	p := v.push(s, vote.KindExtended, e.number)
	p.Serial, p.Sent, p.Elected = e.serial, m.Sent, v.elected.Version
}

// outlasted ends a vote whose time is over.
func (v *Voter) outlasted(e *entry) {
	if e.ghost {
		v.exorcise(e)
		return
	}
	k := e.key
	v.push(e.s, vote.KindLapsed, e.number).Serial = e.serial
	v.extra(e).until = 0
	if until := v.stays(e, true); until > v.now.Slow { // held or not: it may have won, and the news of it may be lost
		v.leaveGhost(e, until, true)
	} else {
		v.unvote(e)
	}
	e.dormant = e.held // until its owner says that it goes on
	k.insert(e)
	v.attend(k)
}

// reminder is when a vote is looked at again: at the end of its tenure, or of its time.
type reminder struct {
	at     vote.Instant
	serial vote.Serial
	key    *key
}

// reminders is a heap, the earliest first. One that no longer means anything is passed over when its time comes.
type reminders []reminder

func (h reminders) less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].serial < h[j].serial
}

func (h *reminders) add(r reminder) {
	*h = append(*h, r)
	all := *h
	for i := len(all) - 1; i > 0; {
		up := (i - 1) / 2
		if !all.less(i, up) {
			break
		}
		all[i], all[up] = all[up], all[i]
		i = up
	}
}

// take removes and returns the first.
func (h *reminders) take() reminder {
	all := *h
	first, n := all[0], len(all)-1
	all[0], all[n] = all[n], reminder{}
	all = all[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && all.less(down+1, down) {
			down++
		}
		if !all.less(down, i) {
			break
		}
		all[i], all[down] = all[down], all[i]
		i = down
	}
	if c := cap(all); c > roomy && n <= c/8 {
		all = append(make(reminders, 0, 2*n), all...)
	}
	*h = all
	return first
}

// remind has a vote looked at again at an instant.
func (v *Voter) remind(e *entry, at vote.Instant) {
	v.at(at)
	x := v.extra(e)
	if x.timed != 0 && x.timed <= at && x.timed > v.now.Slow {
		return // it is looked at before, and then reminded of anew
	}
	x.timed = at
	v.reminders.add(reminder{at, e.serial, e.key})
}

func (v *Voter) advanceReminders() {
	for len(v.reminders) > 0 && v.reminders[0].at <= v.now.Slow {
		r := v.reminders.take()
		e := r.key.voteOf(r.serial)
		if e == nil {
			continue
		}
		x := v.extra(e)
		if x.timed > v.now.Slow {
			continue // it is looked at then: this one was left behind when the vote became a ghost, or its own again, or was to be looked at before
		}
		x.timed = 0
		switch {
		case x.until != 0 && x.until <= v.now.Slow:
			v.outlasted(e)
		default:
			if x.until != 0 {
				v.remind(e, x.until)
			}
			v.serve(r.key)
		}
	}
	if len(v.reminders) > 0 {
		v.at(v.reminders[0].at)
	}
}
