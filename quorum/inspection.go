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
// voters without a vote speak for the same moment: see steady. (Found by worlds with queries.)
//
// Only requests open at first must be settled. Later requests began after the inspection did, and
// may be seen or not; so a key that changes hands all the time keeps no inspection waiting.
type inspection struct {
	began   bool                  // a majority has answered once, for the same moment
	seeing  bool                  // it had not before this pass, so each request counts as seen at first
	pass    uint64                // the number of the pass over the answers
	first   map[requestID]settled // the requests seen by then, and the last settled verdict on each
	until   vote.Instant          // when the inspection ends at the latest
	retryAt vote.Instant          // when all voters are asked again; zero while not scheduled
	pause   time.Duration         // before the next repetition
	// until when the inspection waits for owners that say how often they have handed a lease off
	countUntil vote.Instant
	heard      bool // a request counts as held only once a voter has heard of its grant
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

// HandOffsWait is how long an inspection waits, beside some round trips, until the owner of a lease
// has said how often it has handed the lease off. Owners answer at once, so this is for owners that
// were stopped or cut off; then the token of the first caller is shown.
const HandOffsWait = 100 * time.Millisecond

// verdict is the state of a request according to the answers so far.
type verdict uint8

const (
	verdictOpen verdict = iota // the request may be a held lease
	verdictOver                // too few votes: the request waits, or its end is confirmed
	verdictHeld                // a majority has voted for the request
)

// settled is the verdict on a request, with the slot and the token of its lease if held.
type settled struct {
	verdict
	slot  vote.Slot
	token vote.Token
	pass  uint64 // the newest pass whose answers had the request
}

// evidence is what the voters' answers to a query say about a request.
type evidence struct {
	known Set // voters that know of the request, with a vote or without
	voted Set // voters with a vote for the request
	// Voters that keep the key for the request after its end, or have lost sight of the owner while
	// the vote still holds.
	delayed Set
	rest    *vote.View // from the one that keeps the key for the longest
	over    bool       // a voter has heard of the lease's end from the owner
	held    *vote.View // from a voter that has heard of the grant from the owner
	heldBy  Set        // all such voters
	byToken []tokenVotes
	at      int // the request's place among the views of the result
	// Of an inspection: the verdict now, and the last settled verdict.
	is, last settled
}

// tokenVotes is the set of voters with votes for one slot and token.
type tokenVotes struct {
	slot   vote.Slot
	token  vote.Token
	voters Set
}

// add takes in what the voter at a place says about the request.
func (v *evidence) add(place int, s *vote.View) {
	switch s.State {
	case vote.Delayed:
		v.delayed = v.delayed.With(place)
		v.over = v.over || s.Unlocked
		if v.rest == nil || v.rest.Left < s.Left {
			v.rest = s
		}
		return
	case vote.Waiting:
		v.known = v.known.With(place)
		return
	}
	v.known, v.voted = v.known.With(place), v.voted.With(place)
	if s.State == vote.Holding {
		v.held, v.heldBy = s, v.heldBy.With(place)
	}
	if s.Token == 0 {
		return // the voter doesn't know which token won, if any
	}
	at := slices.IndexFunc(v.byToken, func(o tokenVotes) bool { return o.slot == s.Slot && o.token == s.Token })
	if at < 0 {
		at = len(v.byToken)
		v.byToken = append(v.byToken, tokenVotes{slot: s.Slot, token: s.Token})
	}
	v.byToken[at].voters = v.byToken[at].voters.With(place)
}

// possible returns the voters that have, or may have, a vote for a request. A nil v is a request
// missing from all answers.
func (v *evidence) possible() Set {
	if v == nil || v.voted == 0 || v.over {
		return 0 // nor are there votes if the key only rests, or if the owner has ended the lease
	}
	return v.voted | v.delayed
}

// simultaneous returns the voters with answers for the same moment: when the first voter was asked.
func (qu *query) simultaneous() (s Set) {
	first := vote.Never
	for i, at := range qu.spans {
		if qu.complete.Has(i) {
			first = min(first, at.to)
		}
	}
	for i, at := range qu.spans {
		if qu.complete.Has(i) && at.from <= first {
			s = s.With(i)
		}
	}
	return s
}

// judge returns the verdict on a request. A held lease needs the votes of a majority, for one
// slot and one token; but if a voter has heard of the grant from the owner, this voter names the
// slot and the token.
//
// An inspection for a watch waits for such a voter. Its node may yet give up a request that has the
// votes of a majority, and then a watch would tell of a lease that was never granted. (Found by
// seed 2 of watches of a busy mesh.)
func (q querier) judge(in *inspection, simultaneous Set, v *evidence) settled {
	if !q.newest.mayHold(v.possible() | ^simultaneous) {
		return settled{verdict: verdictOver}
	}
	if v == nil {
		return settled{verdict: verdictOpen}
	}
	if v.held != nil {
		if q.newest.mayHold(v.voted) {
			return settled{verdict: verdictHeld, slot: v.held.Slot, token: v.held.Token}
		}
		return settled{verdict: verdictOpen}
	}
	for _, s := range v.byToken {
		if !in.heard && q.newest.Decides(s.voters) {
			return settled{verdict: verdictHeld, slot: s.slot, token: s.token}
		}
	}
	return settled{verdict: verdictOpen}
}

// mayBeOver reports whether a voter about to answer may say that a waiting request is over: a
// majority may have confirmed its end, and no voter has said so yet. The inspection doesn't wait
// for silent voters, since a finished request shown as waiting does little harm.
func (q querier) mayBeOver(qu *query, v *evidence) bool {
	return v != nil && v.known != 0 && !v.over && !q.newest.mayHold(v.known) && q.newest.mayHold(v.known|^qu.complete) && slices.ContainsFunc(q.voters(), func(p *peer) bool {
		return !qu.complete.Has(p.place) && q.answers(p)
	})
}

// beginPass prepares an inspection for a pass over the answers of a majority, with at most about so
// many requests each.
func (q querier) beginPass(in *inspection, simultaneous Set, most int) {
	if in.first == nil {
		in.until, in.first = q.now.Fast.Add(q.ttl()/2), make(map[requestID]settled, most)
		in.countUntil = min(in.until, q.now.Fast.Add(HandOffsWait+4*q.far))
	}
	in.pass++
	in.seeing = !in.began
	// Before that a lease may be missing from all answers.
	in.began = in.began || !q.newest.mayHold(^simultaneous)
}

// examine returns the verdict on a request in a pass, the last settled verdict on a request seen
// at first, and whether this request leaves open who holds the key.
func (q querier) examine(
	qu *query, simultaneous Set, id requestID, v *evidence,
) (is, last settled, seen, open bool) {
	in := qu.inspection
	is = q.judge(in, simultaneous, v)
	was, seen := in.first[id]
	if !seen && !in.seeing {
		return is, is, false, false
	}
	last = was
	if is.verdict != verdictOpen {
		last = is
	}
	last.pass = in.pass
	in.first[id] = last
	open = last.verdict == verdictOpen || is.verdict == verdictOver && q.mayBeOver(qu, v)
	return is, last, true, open
}

// retryInspection schedules the repetition of an inspection whose answers contain so many requests.
// It returns false if there is no time left for one.
func (q querier) retryInspection(in *inspection, requests int) bool {
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

// retryInspections repeats the query of each inspection that is due, at all voters.
func (q querier) retryInspections() {
	var over []*query
	for _, qu := range q.queries {
		in := qu.inspection
		switch {
		case in == nil || in.retryAt == 0:
		case in.retryAt > q.now.Fast:
			q.queriesDue = min(q.queriesDue, in.retryAt)
		case q.now.Fast >= in.until:
			over = append(over, qu)
		default:
			in.retryAt, qu.complete = 0, 0
			for _, p := range q.peers {
				if q.newest.all.Has(p.place) && p.reachable() {
					q.sendQuery(qu, p)
				}
			}
		}
	}
	for _, qu := range over {
		q.settleQuery(qu)
	}
}
