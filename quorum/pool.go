package quorum

import (
	"slices"
)

// The objects of a lock are reused, so that locking and unlocking allocate nothing. The object
// freed last is reused first. An object is cleared fully when freed, so no state of a request can
// leak into another.
//
// So a structure that may outlive a request must not point to it, since the object may be another
// request's by then: such a structure has the request's number, and looks the number up.

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
