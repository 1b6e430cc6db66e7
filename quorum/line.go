package quorum

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// line is what this node's own callers want of one key: one request is put to the voters, and the others stand behind it here. So a key for which a
// hundred goroutines contend costs the mesh as much as one for which one does.
//
// When the lease is given back while nobody elsewhere waits, it is passed on to the next in line without a word to anyone, with the next
// token of its run, as often as there are tokens in it. When somebody elsewhere waits, or the run is used up, the next in line is put to the
// voters, and the lease is given back after that on the same streams. Its stamp says when it came, so whoever elsewhere came before it is served before
// it, and nobody is passed because the line was short of a voice.
type line struct {
	head   *request   // the request that the voters know of
	waits  []*request // who waits behind it, in order of their stamps
	passed vote.Token // how often the head's lease was passed on
}

// plain reports whether a request may stand in line with others of its kind: what the voters are told of it is the same for all.
func (r *request) plain() bool {
	return r.Mode == vote.Exclusive && r.Beside == 0 && r.Length == 0 && r.Delay == 0 && r.MinHold == 0 && !r.Urge && len(r.Value) == 0
}

// standInLine puts a new request behind those of this node that want the same key. It reports whether there is a line to stand in; otherwise the
// request is to be put to the voters, and others may stand behind it.
func (q *Requester) standInLine(r *request) bool {
	if q.cfg.Alone || !r.plain() {
		return false
	}
	l := q.lines[r.Key]
	if r.Try {
		if l == nil || l.head.state != stateWon {
			return false // only the voters know
		}
		r.state = stateEnding // there is nobody to tell
		q.tell(Event{Kind: EventFailed, Number: r.number, Wait: Wait{WaitHeld, "another caller on this node has it"}})
		delete(q.requests, r.number)
		return true
	}
	if l == nil {
		r.line = &line{head: r}
		q.lines[r.Key] = r.line
		return false
	}
	if l.head.state == statePending && r.time < l.head.time {
		// By its stamp it goes before the one behind which it would stand: that was made before the voters' clocks were known, or the wall clock was set
		// back since. (Found by seed 800562.)
		return false
	}
	r.line, r.parked = l, true
	i, _ := slices.BinarySearchFunc(l.waits, r, func(a, b *request) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.number, b.number)) })
	l.waits = slices.Insert(l.waits, i, r)
	return true
}

// find returns the request of a number that a caller knows: its own, or the one whose lease was passed on to it. Nil if that is over.
func (q *Requester) find(n vote.Number) *request {
	if r := q.seats[n]; r != nil {
		return r
	}
	if r := q.requests[n]; r != nil && r.user == n {
		return r
	}
	return nil
}

// Seat returns the number by which the voters know what a caller's number stands for.
func (q *Requester) Seat(n vote.Number) vote.Number {
	if r := q.seats[n]; r != nil {
		return r.number
	}
	return n
}

// passOn gives a lease that its caller has done with to the next in line. It reports whether it did.
func (q *Requester) passOn(r *request) bool {
	l := r.line
	if l == nil || l.head != r || r.state != stateWon || r.Mode != vote.Exclusive || r.wanted || len(l.waits) == 0 || l.passed+1 >= vote.Run {
		return false
	}
	next := l.waits[0]
	if next.number > r.behind && next.since >= q.stoodAt(r) {
		return false
	}
	l.waits = slices.Delete(l.waits, 0, 1)
	l.passed++
	q.count.Passed++
	q.count.Wins++
	q.tell(Event{Kind: EventReleased, Number: r.user})
	delete(q.seats, r.user)
	delete(q.requests, next.number)
	r.user = next.number
	q.seats[r.user] = r
	if r.version > 0 {
		q.setValue(r, nil)
	}
	q.tell(Event{Kind: EventGranted, Number: r.user, Token: r.token.First() + l.passed, Group: r.group.id})
	return true
}

// stoodAt returns an instant at which a majority surely stood behind a lease: when the refreshes were sent that cover it.
//
// A lease is passed on only to those who asked before that, or before it was put to the voters. Whoever asks later might ask when another has been granted the key long
// since, as this node was paused and no clock of it shows that; and its token must be larger then.
func (q *Requester) stoodAt(r *request) vote.Instant {
	return r.group.until.Add(vote.Guard(q.cfg.TTL) - vote.Cover(q.cfg.TTL))
}

// leaveLine takes a request out of its line, before it ends. If it was the one that the voters know, the next takes its place: it is put
// to the voters first, so that it doesn't stand behind those who came after it.
func (q *Requester) leaveLine(r *request) {
	l := r.line
	if l == nil {
		return
	}
	r.line = nil
	if l.head != r {
		l.waits = slices.DeleteFunc(l.waits, func(o *request) bool { return o == r })
		return
	}
	if len(l.waits) == 0 {
		delete(q.lines, r.Key)
		return
	}
	l.head, l.passed = l.waits[0], 0
	l.waits = slices.Delete(l.waits, 0, 1)
	l.head.parked = false
	q.speak(l.head)
}

// Parked returns how many requests of this node stand in line for a key behind the one that the voters know of.
func (q *Requester) Parked(k vote.Key) int {
	if l := q.lines[k]; l != nil {
		return len(l.waits)
	}
	return 0
}
