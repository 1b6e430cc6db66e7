package quorum

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The objects of a lock are reused, so that locking and unlocking allocate nothing. The object
// freed last is reused first. An object is cleared fully when freed, so no state of a request can
// leak into another.
//
// So a longer-lived structure must not point to a request: lists of possibly finished requests hold
// numbers.

// poolMax is the capacity of each pool: about as many locks as a node has under way at a time, held
// locks not counted. With three voters the pools take some 400 KiB.
const poolMax = 1024

// roomyList is the largest capacity, in entries, of a list kept for reuse.
const roomyList = 64

// pool is a list of free objects.
type pool[T any] []*T

func (p *pool[T]) take() *T {
	n := len(*p)
	if n == 0 {
		return nil
	}
	x := (*p)[n-1]
	(*p)[n-1] = nil
	*p = (*p)[:n-1]
	return x
}

func (p *pool[T]) give(x *T) {
	if len(*p) < poolMax {
		*p = append(*p, x)
	}
}

// pools are all pools of a requester.
type pools struct {
	requests    pool[request]
	cold        pool[coldFields]
	groups      pool[group]
	localQueues pool[localQueue]
}

func (q *Requester) newRequest() *request {
	r := q.free.requests.take()
	if r == nil {
		return &request{tally: tally{votes: make([]countedVote, len(q.peers))}}
	}
	r.state = statePending
	return r
}

// coldOf returns the cold fields of a request for writing, and creates them if need be.
func (q *Requester) coldOf(r *request) *coldFields {
	if r.cold == nil {
		if r.cold = q.free.cold.take(); r.cold == nil {
			r.cold = &coldFields{votes: make([]coldVote, len(q.peers))}
		}
	}
	return r.cold
}

// coldVote returns the cold fields of a voter's vote for writing.
func (q *Requester) coldVote(r *request, place int) *coldVote { return &q.coldOf(r).votes[place] }

// recycle returns a finished request to the pool. Until reuse the request is in stateEnding, so
// code with a stale pointer leaves the request alone.
func (q *Requester) recycle(r *request) {
	if x := r.cold; x != nil {
		clear(x.votes)
		*x = coldFields{votes: x.votes}
		q.free.cold.give(x)
	}
	clear(r.votes)
	*r = request{tally: tally{votes: r.votes}, state: stateEnding}
	q.free.requests.give(r)
}

// roomyMap is how large a map may have grown and still keep its memory; Go's maps never shrink.
const roomyMap = 4096

// drop deletes an entry and returns the map, or a smaller copy once most entries of the peak are
// gone.
func drop[K comparable, V any](m map[K]V, key K, most *int) map[K]V {
	delete(m, key)
	if *most <= roomyMap || len(m) > *most/8 {
		return m
	}
	*most = max(len(m), roomyMap/2)
	small := make(map[K]V, *most)
	for k, v := range m {
		small[k] = v
	}
	return small
}

// sliding is a queue that grows at its end and shrinks at its beginning within the same memory.
type sliding[T any] struct {
	room []T
	gone int // how many entries at the beginning are free
}

func (s *sliding[T]) len() int { return len(s.room) - s.gone }

func (s *sliding[T]) first() *T { return &s.room[s.gone] }

func (s *sliding[T]) list() []T { return s.room[s.gone:] }

func (s *sliding[T]) push(x T) {
	if len(s.room) == cap(s.room) && s.gone > len(s.room)/2 {
		n := copy(s.room, s.room[s.gone:])
		clear(s.room[n:])
		s.room, s.gone = s.room[:n], 0
	}
	s.room = append(s.room, x)
}

// insert inserts x before the i-th entry.
func (s *sliding[T]) insert(i int, x T) {
	s.push(x)
	list := s.list()
	copy(list[i+1:], list[i:])
	list[i] = x
}

// remove removes the i-th entry.
func (s *sliding[T]) remove(i int) {
	if i == 0 {
		s.pop()
		return
	}
	s.room = slices.Delete(s.room, s.gone+i, s.gone+i+1)
}

// pop removes the first entry.
func (s *sliding[T]) pop() {
	var none T
	s.room[s.gone] = none
	s.gone++
	if s.gone < len(s.room) {
		return
	}
	s.room, s.gone = s.room[:0], 0
	if cap(s.room) > roomyMap {
		s.room = nil
	}
}

// expect adds a request to a list of requests with a time limit. Entries at the front are dropped
// if over, unless their time limit comes before the next refresh: then the refresh drops them in
// any case.
func (q *Requester) expect(list *sliding[timed], r *request, over func(vote.Number) bool) {
	for list.len() > 0 && list.first().at > q.refreshAt && over(list.first().number) {
		list.pop()
	}
	list.push(timed{q.now.Fast.Add(q.cfg.TTL), r.number})
}
