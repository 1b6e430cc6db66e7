package quorum

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// What comes and goes with each lock is used again, so that locking and unlocking allocates nothing: the last that was done with is the next to be
// used, and it is cleared wholly when it is done with, so that nothing of one request can reach another.
//
// Nothing that outlasts a request may point at it, then: lists that may name requests that are over have numbers.

// poolMax bounds how many of a kind are kept: about as many locks as a node has under way at a time, held ones not counted. With three voters they are
// some 400 KiB.
const poolMax = 1024

// roomyList is for how many entries what is kept may have room.
const roomyList = 64

// pool is what is free.
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

// pools are all of a requester's.
type pools struct {
	requests pool[request]
	rares    pool[rare]
	groups   pool[group]
	lines    pool[line]
}

func (q *Requester) newRequest() *request {
	r := q.free.requests.take()
	if r == nil {
		return &request{ballot: ballot{votes: make([]counted, len(q.peers))}}
	}
	r.state = statePending
	return r
}

// rareOf returns what is rare of a request, to note something in it.
func (q *Requester) rareOf(r *request) *rare {
	if r.rare == nil {
		if r.rare = q.free.rares.take(); r.rare == nil {
			r.rare = &rare{votes: make([]rareVote, len(q.peers))}
		}
	}
	return r.rare
}

// rareVote returns what is rare of a voter's vote, to note something in it.
func (q *Requester) rareVote(r *request, place int) *rareVote { return &q.rareOf(r).votes[place] }

// recycle keeps for the next what is left of a request that is gone. Until then it is one that has ended, so whoever comes upon it leaves it alone.
func (q *Requester) recycle(r *request) {
	if x := r.rare; x != nil {
		clear(x.votes)
		*x = rare{votes: x.votes}
		q.free.rares.give(x)
	}
	clear(r.votes)
	*r = request{ballot: ballot{votes: r.votes}, state: stateEnding}
	q.free.requests.give(r)
}

// roomyMap is how many entries a map may have had and still keep its room; Go's maps never shrink.
const roomyMap = 4096

// drop deletes an entry and returns the map: another one, once the crowd is gone for which it had grown to its most.
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

// sliding is a list that grows at its end and shrinks at its beginning, in the same room.
type sliding[T any] struct {
	room []T
	gone int // how many at the beginning are over
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

// insert puts x before the i-th of the list.
func (s *sliding[T]) insert(i int, x T) {
	s.push(x)
	list := s.list()
	copy(list[i+1:], list[i:])
	list[i] = x
}

// remove takes the i-th out of the list.
func (s *sliding[T]) remove(i int) {
	if i == 0 {
		s.pop()
		return
	}
	s.room = slices.Delete(s.room, s.gone+i, s.gone+i+1)
}

// pop drops the first.
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

// expect adds a request to a list of those with a time limit. Those before it that are over and would come up no sooner than the next refresh, at which they
// are dropped in any case, need not be kept till then.
func (q *Requester) expect(list *sliding[timed], r *request, over func(vote.Number) bool) {
	for list.len() > 0 && list.first().at > q.refreshAt && over(list.first().number) {
		list.pop()
	}
	list.push(timed{q.now.Fast.Add(q.cfg.TTL), r.number})
}
