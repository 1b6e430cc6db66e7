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
//
// Most lines are nothing but their head: the request that the voters know of, which is in Requester.heads. Only if somebody waits behind it, or its lease was passed
// on, there is a line besides.
type line struct {
	waits  sliding[*request] // who waits behind the head, in order of their stamps
	passed vote.Token        // how often the head's lease was passed on
}

// plain reports whether a request may stand in line with others of its kind: what the voters are told of it is the same for all.
func (r *request) plain() bool {
	if r.mode != vote.Exclusive || r.rare == nil {
		return r.mode == vote.Exclusive
	}
	a := &r.rare.ask
	return a.Beside == 0 && a.Length == 0 && a.Delay == 0 && a.MinHold == 0 && !a.Urge && len(a.Value) == 0
}

// standInLine puts a new request behind those of this node that want the same key. It reports whether there is a line to stand in; otherwise the
// request is to be put to the voters, and others may stand behind it.
func (q *Requester) standInLine(r *request) bool {
	if q.cfg.Alone || !r.plain() {
		return false
	}
	head := q.heads[r.key]
	if r.try {
		if head == nil || head.state != stateWon {
			return false // only the voters know
		}
		q.tell(EventFailed, r.number).Wait = Wait{WaitHeld, "another caller on this node has it"}
		q.gone(r) // there is nobody to tell
		return true
	}
	if head == nil {
		r.lined = true
		q.heads[r.key] = r
		q.most.heads = max(q.most.heads, len(q.heads))
		return false
	}
	if head.state == statePending && r.time < head.time {
		// By its stamp it goes before the one behind which it would stand: that was made before the voters' clocks were known, or the wall clock was set
		// back since. (Found by seed 800562.)
		return false
	}
	r.lined, r.parked = true, true
	l := q.lineOf(r.key)
	i, _ := slices.BinarySearchFunc(l.waits.list(), r, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.number, b.number))
	})
	l.waits.insert(i, r)
	return true
}

// lineOf returns the line for a key that has a head.
func (q *Requester) lineOf(k vote.Key) *line {
	l := q.lines[k]
	if l == nil {
		if l = q.free.lines.take(); l == nil {
			l = &line{}
		}
		q.lines[k] = l
		q.most.lines = max(q.most.lines, len(q.lines))
	}
	return l
}

// dropLine forgets a line that has nothing but its head.
func (q *Requester) dropLine(k vote.Key, l *line) {
	if l.waits.len() == 0 && l.passed == 0 {
		q.lines = drop(q.lines, k, &q.most.lines)
		if cap(l.waits.room) <= roomyList {
			q.free.lines.give(l)
		}
	}
}

// gone forgets a request that is over before the voters have heard of it.
func (q *Requester) gone(r *request) {
	remove(&q.pending, r)
	q.requests = drop(q.requests, r.number, &q.most.requests)
	q.recycle(r)
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
	if !r.lined || r.state != stateWon || r.mode != vote.Exclusive || r.wanted {
		return false
	}
	l := q.lines[r.key]
	if l == nil || l.waits.len() == 0 || l.passed+1 >= vote.Run { // whoever has won is the head
		return false
	}
	next := *l.waits.first()
	if next.number > r.behind && next.since >= q.stoodAt(r) {
		return false
	}
	l.waits.pop()
	l.passed++
	q.count.Passed++
	q.count.Wins++
	q.tell(EventReleased, r.user)
	delete(q.seats, r.user)
	r.user = next.number
	q.gone(next)
	q.seats[r.user] = r
	q.most.seats = max(q.most.seats, len(q.seats))
	if r.version() > 0 {
		q.setValue(r, nil)
	}
	e := q.tell(EventGranted, r.user)
	e.Token, e.Group = r.token.First()+l.passed, r.group.id
	return true
}

// stoodAt returns an instant at which a majority surely stood behind a lease: when the refreshes were sent that cover it.
//
// A lease is passed on only to those who asked before that, or before it was put to the voters. Whoever asks later might ask when another has been granted the key long
// since, as this node was paused and no clock of it shows that; and its token must be larger then. Nor does it help that the lease stands again: where a session of the voters
// has begun anew meanwhile, it isn't passed on any more. (Found by seed 44501272, beyond the assumptions.)
func (q *Requester) stoodAt(r *request) vote.Instant {
	return r.group.until.Add(vote.Guard(q.cfg.TTL) - vote.Cover(q.cfg.TTL))
}

// leaveLine takes a request out of its line, before it ends. If it was the one that the voters know, the next takes its place: it is put
// to the voters first, so that it doesn't stand behind those who came after it.
func (q *Requester) leaveLine(r *request) {
	if !r.lined {
		return
	}
	r.lined = false
	l := q.lines[r.key]
	if q.heads[r.key] != r {
		l.waits.remove(slices.Index(l.waits.list(), r))
		q.dropLine(r.key, l)
		return
	}
	if l != nil {
		l.passed = 0
	}
	if l == nil || l.waits.len() == 0 {
		q.heads = drop(q.heads, r.key, &q.most.heads)
		if l != nil {
			q.dropLine(r.key, l)
		}
		return
	}
	next := *l.waits.first()
	l.waits.pop()
	q.heads[next.key] = next
	q.dropLine(next.key, l)
	next.parked = false
	q.speak(next)
}

// Parked returns how many requests of this node stand in line for a key behind the one that the voters know of.
func (q *Requester) Parked(k vote.Key) int {
	if l := q.lines[k]; l != nil {
		return l.waits.len()
	}
	return 0
}
