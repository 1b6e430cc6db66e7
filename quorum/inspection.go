package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// inspection is the state of a query with an answer fit for decisions: each grant and each release
// from before the inspection must show in it. Two facts are used. A held lease has the votes of a
// majority of the voters. And once the end of a lease is confirmed, a majority knows of no such
// vote any more.
//
// The answers of a majority may leave open which of the two is the case: of three voters, the voter
// yet to answer may have the second vote for a request, or may have confirmed its end. Then the
// inspection waits for further answers, and repeats the query after a pause, since the missing
// messages are on their way to the voters. The inspection settles for less only if the question
// stays open for half a TTL, as happens when a voter can be reached from this node and not from the
// node that has released the lease.
//
// The answers to a query aren't from one moment. Meanwhile the lease of a node cut off from one
// voter may come to rest on the vote of another voter: asked too early, the new voter shows no vote
// yet; asked too late, the old voter shows no vote any more; and a majority seems to say that the
// key is free. So each voter says since when it has lost no vote except by a release of the owner.
// The answer speaks for that time, and missing votes are evidence only where the answers of all
// voters without a vote speak for the same moment: see steady. (Found by seed 179556567 of worlds
// with looks.)
//
// Only requests open at first must be settled. Later requests began after the inspection did, and
// may be seen or not; so a key that changes hands all the time keeps no inspection waiting.
type inspection struct {
	began   bool                  // a majority has answered once, for the same moment
	first   map[requestID]settled // the requests seen by then, and the last settled standing of each
	until   vote.Instant          // when the inspection ends at the latest
	retryAt vote.Instant          // when all voters are asked again; zero while not scheduled
	pause   time.Duration         // before the next repetition
}

// requestID identifies a request of any node.
type requestID struct {
	owner  vote.SessionID
	number vote.Number
}

// inspectPause is the first pause of an inspection before a repetition: longer than a message
// lingers in its sender's queue.
const inspectPause = time.Millisecond

// inspectEach is the least pause for each request seen, so that large answers are requested seldom:
// about the time to show and compare one request.
const inspectEach = 20 * time.Microsecond

// maxInspectPause is the limit of the doubling pause; large answers and distant voters may need
// longer pauses.
const maxInspectPause = 50 * time.Millisecond

// standing is the state of a request according to the answers so far.
type standing uint8

const (
	standsOpen standing = iota // the request may be a held lease
	standsOver                 // too few votes: the request waits, or its end is confirmed
	standsHeld                 // a majority has voted for the request
)

// settled is the standing of a request, with the slot and the token of its lease if held.
type settled struct {
	standing
	slot  vote.Slot
	token vote.Token
}

// evidence is what the voters' answers to a query say about a request.
type evidence struct {
	known Set // voters that know of the request, with a vote or without
	voted Set // voters with a vote for the request
	// Voters that keep the key for the request after its end, or have lost sight of the owner while
	// the vote still holds.
	delayed Set
	held    *vote.View // from a voter that has heard of the grant from the owner
	byToken []tokenVotes
}

// tokenVotes is the set of voters with votes for one slot and token.
type tokenVotes struct {
	slot   vote.Slot
	token  vote.Token
	voters Set
}

// evidence collects the answers to a query, by request.
func (l *query) evidence() map[requestID]*evidence {
	all := make(map[requestID]*evidence)
	cut, last := l.truncated()
	for i := range l.answers {
		if !l.complete.Has(i) {
			continue
		}
		for j := range l.answers[i].Views {
			s := &l.answers[i].Views[j]
			if cut && s.Key > last {
				break // another voter's answer ends before this key
			}
			id := requestID{s.Owner, s.Number}
			v := all[id]
			if v == nil {
				v = &evidence{}
				all[id] = v
			}
			switch s.State {
			case vote.Delayed:
				v.delayed = v.delayed.With(i)
				continue
			case vote.Waiting:
				v.known = v.known.With(i)
				continue
			}
			v.known = v.known.With(i)
			v.voted = v.voted.With(i)
			if s.State == vote.Holding {
				v.held = s
			}
			if s.Token == 0 {
				continue // the voter doesn't know which token won, if any
			}
			at := slices.IndexFunc(v.byToken, func(o tokenVotes) bool { return o.slot == s.Slot && o.token == s.Token })
			if at < 0 {
				at = len(v.byToken)
				v.byToken = append(v.byToken, tokenVotes{slot: s.Slot, token: s.Token})
			}
			v.byToken[at].voters = v.byToken[at].voters.With(i)
		}
	}
	return all
}

// possible returns the voters that have, or may have, a vote for a request. A nil v is a request
// missing from all answers.
func (v *evidence) possible() Set {
	if v == nil || v.voted == 0 {
		return 0 // nor are there votes if the key only rests
	}
	return v.voted | v.delayed
}

// simultaneous returns the voters with answers for the same moment: when the first voter was asked.
func (l *query) simultaneous() (s Set) {
	first := vote.Never
	for i, at := range l.spans {
		if l.complete.Has(i) {
			first = min(first, at.to)
		}
	}
	for i, at := range l.spans {
		if l.complete.Has(i) && at.from <= first {
			s = s.With(i)
		}
	}
	return s
}

// standing returns the standing of a request. A held lease needs the votes of a majority, for one
// slot and one token; but if a voter has heard of the grant from the owner, this voter names the
// slot and the token.
func (q *Requester) standing(l *query, v *evidence) settled {
	if !q.newest.MayHold(v.possible() | ^l.simultaneous()) {
		return settled{standing: standsOver}
	}
	if v == nil {
		return settled{standing: standsOpen}
	}
	if v.held != nil {
		if q.newest.MayHold(v.voted) {
			return settled{standsHeld, v.held.Slot, v.held.Token}
		}
		return settled{standing: standsOpen}
	}
	for _, s := range v.byToken {
		if q.newest.Decides(s.voters) {
			return settled{standsHeld, s.slot, s.token}
		}
	}
	return settled{standing: standsOpen}
}

// mayBeOver reports whether a voter about to answer may say that a waiting request is over: a
// majority may have confirmed its end. The inspection doesn't wait for silent voters, since a
// finished request shown as waiting does little harm.
func (q *Requester) mayBeOver(l *query, v *evidence) bool {
	return v != nil && v.known != 0 && !q.newest.MayHold(v.known) && q.newest.MayHold(v.known|^l.complete) && slices.ContainsFunc(q.voters(), func(p *peer) bool {
		return !l.complete.Has(p.place) && q.answers(p)
	})
}

// isOpen reports whether an inspection goes on after the answers of a majority, since they leave
// open who holds the key.
func (q *Requester) isOpen(l *query) bool {
	in := l.inspection
	if in == nil {
		return false
	}
	all := l.evidence()
	if in.first == nil {
		in.until, in.first = q.now.Fast.Add(q.ttl()/2), make(map[requestID]settled)
	}
	if !in.began {
		// Otherwise there may be a lease missing from all answers.
		in.began = !q.newest.MayHold(^l.simultaneous())
		for id := range all {
			if _, ok := in.first[id]; !ok {
				in.first[id] = settled{standing: standsOpen}
			}
		}
	}
	open := !in.began
	for id, was := range in.first { // in any order
		is := q.standing(l, all[id])
		if is.standing != standsOpen {
			in.first[id] = is
		}
		open = open || is.standing == standsOpen && was.standing == standsOpen || is.standing == standsOver && q.mayBeOver(l, all[id])
	}
	return open && q.retryInspection(in, len(all))
}

// retryInspection schedules the repetition of an inspection whose answers contain so many requests.
// It returns false if there is no time left for one.
func (q *Requester) retryInspection(in *inspection, requests int) bool {
	if q.now.Fast >= in.until {
		return false
	}
	if in.retryAt == 0 {
		in.retryAt = min(q.now.Fast.Add(max(in.pause, q.far, time.Duration(requests)*inspectEach)), in.until)
		in.pause = min(2*in.pause, maxInspectPause)
		q.queriesDue = min(q.queriesDue, in.retryAt)
	}
	return true
}

// isContradicted reports whether the merged answers to an inspection leave out a lease that was
// held earlier during the inspection, only since a newer lease is held. The end of the left out
// lease isn't confirmed: the holder may instead have let others in, unknown to the voters whose
// answers are at hand. (Found by seed 840002671 of worlds with looks.)
func (q *Requester) isContradicted(l *query, result *QueryResult) bool {
	if l.inspection == nil || len(result.Superseded) == 0 {
		return false
	}
	all := l.evidence()
	return slices.ContainsFunc(result.Superseded, func(s vote.View) bool {
		id := requestID{s.Owner, s.Number}
		return l.inspection.first[id].standing == standsHeld && q.standing(l, all[id]).standing == standsOpen
	})
}

// conclude decides who holds the key, as far as an inspection knows. A request seen at first gets
// its last settled standing; if never settled, the request stays as merged, and the answer isn't
// certain; the returned requests may be leases of which no voter with an answer has heard. A
// request seen only later, with an open standing, wasn't held all the time, and need not be shown
// as held.
func (q *Requester) conclude(l *query, all *QueryResult) (unsure map[requestID]bool) {
	told := l.evidence()
	unsure = make(map[requestID]bool)
	all.Certain = l.inspection.began
	all.Views = slices.DeleteFunc(all.Views, func(s vote.View) bool {
		v := told[requestID{s.Owner, s.Number}]
		// Only incomplete answers contain the request; or most voters know of its end, or have yet
		// to hear of the request.
		return s.State != vote.Delayed && (v == nil || !q.newest.MayHold(v.known|v.delayed|^l.simultaneous()))
	})
	const over = vote.State(0)
	for i := range all.Views {
		s := &all.Views[i]
		if s.State == vote.Delayed {
			continue
		}
		id := requestID{s.Owner, s.Number}
		is, seen := l.inspection.first[id] // the last settled standing
		if !seen {
			is = q.standing(l, told[id])
		}
		switch {
		case is.standing == standsOpen && seen:
			all.Certain = false
			unsure[id] = s.State != vote.Holding && told[id].voted != 0
		case is.standing == standsHeld:
			// A voter with a vote for another token hasn't heard which token won.
			s.State, s.Slot, s.Token = vote.Holding, is.slot, is.token.First()
		case s.State == vote.Holding:
			s.State = over
		default: // votes without a majority
			s.State, s.Token = vote.Waiting, 0
		}
	}
	all.Views = slices.DeleteFunc(all.Views, func(s vote.View) bool { return s.State == over })
	return unsure
}

// retryInspections repeats the query of each inspection that is due, at all voters.
func (q *Requester) retryInspections() {
	var over []*query
	for _, l := range q.queries {
		in := l.inspection
		switch {
		case in == nil || in.retryAt == 0:
		case in.retryAt > q.now.Fast:
			q.queriesDue = min(q.queriesDue, in.retryAt)
		case q.now.Fast >= in.until:
			over = append(over, l)
		default:
			in.retryAt, l.complete = 0, 0
			for _, p := range q.peers {
				if q.newest.Committee(l.question.Key).Has(p.place) && p.reachable() {
					q.sendQuery(l, p)
				}
			}
		}
	}
	for _, l := range over {
		q.settleQuery(l)
	}
}
