package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// What a voter keeps for a key must cost little while the key is used and nothing afterwards, and keys that come and go must leave no work to the
// garbage collector. Nothing here changes what a voter says.

// roomy is above how many elements something that holds few of them is made anew. Below that the room isn't worth it.
const roomy = 1024

// table is a map that gives back the room that a crowd has taken: Go's maps never shrink.
type table[K comparable, V any] struct {
	m    map[K]V
	most int // elements since it was made
}

func (t *table[K, V]) put(k K, v V) {
	if t.m == nil {
		t.m = make(map[K]V)
	}
	t.m[k] = v
	t.most = max(t.most, len(t.m))
}

// take removes an element. When one in sixteen is left it moves those, which takes a small part of the time that it took to remove the others.
func (t *table[K, V]) take(k K) {
	delete(t.m, k)
	if t.most <= roomy || len(t.m) > t.most/16 {
		return
	}
	left := make(map[K]V, len(t.m))
	for k, v := range t.m {
		left[k] = v
	}
	t.m, t.most = left, len(left)
}

// few is a list of entries that mostly has one at most, and then needs no memory of its own.
type few struct {
	one  [1]*entry
	more *[]*entry // all of them, once there were several at a time
}

// all returns the entries, in order. It is valid until the list changes.
func (l *few) all() []*entry {
	switch {
	case l.more != nil:
		return *l.more
	case l.one[0] != nil:
		return l.one[:]
	}
	return nil
}

func (l *few) empty() bool { return l.one[0] == nil && (l.more == nil || len(*l.more) == 0) }

func (l *few) insert(i int, e *entry) {
	switch {
	case l.more != nil:
		*l.more = slices.Insert(*l.more, i, e)
	case l.one[0] == nil:
		l.one[0] = e
	default:
		more := append(make([]*entry, 0, 4), l.one[0])
		more = slices.Insert(more, i, e)
		l.one[0], l.more = nil, &more
	}
}

func (l *few) add(e *entry) { l.insert(len(l.all()), e) }

func (l *few) delete(i int) {
	if l.more == nil {
		l.one[0] = nil
		return
	}
	left := slices.Delete(*l.more, i, i+1)
	if c := cap(left); c > roomy && len(left) <= c/4 {
		left = append(make([]*entry, 0, c/2), left...)
	}
	*l.more = left
}

// remove takes out an entry, if it is there.
func (l *few) remove(e *entry) {
	if i := slices.Index(l.all(), e); i >= 0 {
		l.delete(i)
	}
}

// replace puts an entry in the place of another.
func (l *few) replace(e, by *entry) {
	all := l.all()
	all[slices.Index(all, e)] = by
}

// rests is a list of keys that rest, which grows at its end and is taken from its beginning.
type rests struct {
	all  []resting
	gone int // of all, from its beginning
}

func (l *rests) len() int { return len(l.all) - l.gone }

func (l *rests) first() *resting { return &l.all[l.gone] }

func (l *rests) add(r resting) {
	if len(l.all) == cap(l.all) && l.gone >= (len(l.all)+1)/2 && l.gone > 0 {
		n := copy(l.all, l.all[l.gone:])
		clear(l.all[n:])
		l.all, l.gone = l.all[:n], 0
	}
	l.all = append(l.all, r)
}

func (l *rests) take() resting {
	r := l.all[l.gone]
	l.all[l.gone] = resting{}
	l.gone++
	switch n := l.len(); {
	case cap(l.all) > roomy && n <= cap(l.all)/8:
		l.all, l.gone = append(make([]resting, 0, 2*n), l.all[l.gone:]...), 0
	case n == 0:
		l.all, l.gone = l.all[:0], 0
	}
	return r
}

// spareMax is how many structs of a kind are kept for those that come next: what comes and goes in a steady flow, and about 100 KB.
const spareMax = 512

// spare keeps structs that nothing refers to any more for those that come next. They are handed out as good as new.
type spare[T any] struct{ free []*T }

func (p *spare[T]) get() *T {
	n := len(p.free)
	if n == 0 {
		return new(T)
	}
	x := p.free[n-1]
	p.free[n-1] = nil
	p.free = p.free[:n-1]
	return x
}

func (p *spare[T]) put(x *T) {
	if len(p.free) < spareMax {
		var zero T
		*x = zero
		p.free = append(p.free, x)
	}
}

// recentMax is for how many connections a voter remembers whose session speaks over them. Finding it otherwise takes hashing a name.
const recentMax = 16

// session returns a session; nil if there is none.
func (v *Voter) session(conn vote.Conn, id vote.SessionID) *session {
	recent := &v.recent[conn%recentMax]
	if s := *recent; s != nil && s.id == id {
		return s
	}
	s := v.sessions[id]
	*recent = s
	return s
}

// forget takes a session out of those that are remembered.
func (v *Voter) forget(s *session) {
	for i := range v.recent {
		if v.recent[i] == s {
			v.recent[i] = nil
		}
	}
}
