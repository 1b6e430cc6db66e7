package lease

import (
	"cmp"
	"container/heap"
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
	if e.serial == 0 {
		return 0
	}
	if e.MinHold > 0 && (e.held || lapsed) {
		won := e.wonAt
		if !e.held || won == 0 {
			won = v.now.Slow // it may have won just now, and died before it could say so
		}
		until = won.Add(e.MinHold + vote.Drift(e.MinHold))
	}
	if lapsed && (e.Delay > 0 || e.until > 0) {
		ended := max(v.now.Slow, e.until)
		if e.Delay > 0 {
			ended = ended.Add(e.Delay + vote.Drift(e.Delay))
		}
		until = max(until, ended)
	}
	return until
}

// ghosts are kept by whose they were, so that none has to be searched for among a million of them. Of a shared key a request may have left several,
// one after the other.
type ghosts map[vote.SessionID]map[vote.Number][]*entry

func (h ghosts) add(g *entry) {
	of := h[g.stamp.Owner]
	if of == nil {
		of = make(map[vote.Number][]*entry)
		h[g.stamp.Owner] = of
	}
	of[g.number] = append(of[g.number], g)
}

func (h ghosts) remove(g *entry) {
	of := h[g.stamp.Owner]
	left := slices.DeleteFunc(of[g.number], func(o *entry) bool { return o == g })
	if of[g.number] = left; len(left) > 0 {
		return
	}
	if delete(of, g.number); len(of) == 0 {
		delete(h, g.stamp.Owner)
	}
}

// outliving returns the ghosts of a session whose own length isn't over, in order of their serials.
func (h ghosts) outliving(s vote.SessionID) []*entry {
	var all []*entry
	for _, of := range h[s] {
		for _, g := range of {
			if g.Length > 0 {
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
	g := *e
	g.ghost, g.held, g.ends, g.until, g.timed = true, true, e.until, until, 0
	if !lapsed || e.until <= v.now.Slow {
		g.Length = 0
	}
	e.key.votes[slices.Index(e.key.votes, e)] = &g
	e.s.ledger = e.s.ledger.Minus(vote.OfVote(e.serial))
	e.serial, e.slot, e.until = 0, 0, 0
	v.ghosts.add(&g)
	v.remind(&g, until)
}

// adopt gives a request that is stated anew the vote that it had, if that still stands as a ghost. One that its owner has given back
// meanwhile ends.
func (v *Voter) adopt(e *entry, yielded vote.Serial) bool {
	for _, g := range slices.Clone(v.ghosts[e.s.id][e.number]) {
		if g.key != e.key {
			continue
		}
		if g.serial <= yielded {
			v.exorcise(g)
			continue
		}
		v.ghosts.remove(g)
		e.serial, e.slot, e.want, e.since, e.until = g.serial, g.slot, 0, g.since, g.until
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
		switch {
		case e.Length == 0 || g.ends == 0:
			e.until = 0 // it lives by its session, until it is extended
		case g.ends > v.now.Slow:
			e.until = g.ends // what was to follow upon the end doesn't follow yet
		}
		g.key.votes[slices.Index(g.key.votes, g)] = e
		e.s.ledger = e.s.ledger.Plus(vote.OfVote(e.serial))
		if e.until != 0 {
			v.remind(e, e.until)
		}
		return true
	}
	return false
}

// unstated ends what is left of a session's leases of their own length that its newest statement doesn't list: their owner has given them
// back, or may have lost them; what is to follow upon that follows now.
func (v *Voter) unstated(s *session) {
	for _, g := range v.ghosts.outliving(s.id) {
		if s.entries[g.number] != nil {
			continue
		}
		v.report(vote.Ended, g)
		g.Length, g.until = 0, 0 // what is left of the lease itself
		if g.until = v.stays(g, true); g.until <= v.now.Slow {
			v.exorcise(g)
		} else {
			v.remind(g, g.until)
		}
	}
}

// exorcise ends a ghost. By the voters' clocks it doesn't end everywhere at once. The next in line may wait for votes where it still stands, and that
// doesn't count as its tenure: otherwise it would be passed over here, and another one there.
func (v *Voter) exorcise(g *entry) {
	k := g.key
	v.ghosts.remove(g)
	if g.Length > 0 {
		v.report(vote.Ended, g)
	}
	token, exclusive := g.token, g.Mode == vote.Exclusive && g.wonAt != 0
	k.grace = vote.Drift(v.now.Slow.Sub(g.since))
	v.unvote(g)
	if exclusive {
		k.over = max(k.over, token)
	}
	k.forgetTaken()
	v.serve(k)
	k.grace = 0
	v.tellTaken(k)
	if k.idleNow() {
		v.rest(k)
	}
}

// extend has a vote last for its request's length from now.
func (v *Voter) extend(s *session, m *vote.Message) {
	e := s.entries[m.Number]
	if e == nil || e.Length == 0 || v.broken {
		return
	}
	if e.serial == 0 || e.serial != m.Serial {
		if e.dormant {
			e.dormant = false
			v.serve(e.key)
		}
		return
	}
	e.until = v.now.Slow.Add(e.Length)
	v.remind(e, e.until)
	v.push(s, vote.Message{Kind: vote.KindExtended, Number: e.number, Serial: e.serial, Sent: m.Sent, Elected: v.elected.Version})
}

// outlasted ends a vote whose time is over.
func (v *Voter) outlasted(e *entry) {
	if e.ghost {
		v.exorcise(e)
		return
	}
	k := e.key
	v.push(e.s, vote.Message{Kind: vote.KindLapsed, Number: e.number, Serial: e.serial})
	e.until = 0
	if until := v.stays(e, true); until > v.now.Slow { // held or not: it may have won, and the news of it may be lost
		v.leaveGhost(e, until, true)
	} else {
		v.unvote(e)
	}
	e.dormant = e.held // until its owner says that it goes on
	k.insert(e)
	v.serve(k)
}

// reminder is when a vote is looked at again: at the end of its tenure, or of its time.
type reminder struct {
	at     vote.Instant
	serial vote.Serial
	key    *key
}

// reminders is a heap, the earliest first. One that no longer means anything is passed over when its time comes.
type reminders []reminder

func (h reminders) Len() int { return len(h) }
func (h reminders) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].serial < h[j].serial
}
func (h reminders) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface's.
func (h *reminders) Push(x any) { *h = append(*h, x.(reminder)) }

// Pop is heap.Interface's.
func (h *reminders) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = reminder{}
	*h = old[:len(old)-1]
	return last
}

// remind has a vote looked at again at an instant.
func (v *Voter) remind(e *entry, at vote.Instant) {
	v.at(at)
	if e.timed != 0 && e.timed <= at && e.timed > v.now.Slow {
		return // it is looked at before, and then reminded of anew
	}
	e.timed = at
	heap.Push(&v.reminders, reminder{at, e.serial, e.key})
}

func (v *Voter) advanceReminders() {
	for len(v.reminders) > 0 && v.reminders[0].at <= v.now.Slow {
		r := heap.Pop(&v.reminders).(reminder)
		e := r.key.voteOf(r.serial)
		if e == nil {
			continue
		}
		e.timed = 0
		switch {
		case e.until != 0 && e.until <= v.now.Slow:
			v.outlasted(e)
		default:
			if e.until != 0 {
				v.remind(e, e.until)
			}
			v.serve(r.key)
		}
	}
	if len(v.reminders) > 0 {
		v.at(v.reminders[0].at)
	}
}
