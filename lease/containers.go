package lease

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The memory for a key must be small while the key is used and zero afterwards, and keys that come
// and go must leave no work to the garbage collector. Nothing in this file changes the messages of
// a voter.

// roomy is the capacity above which a nearly empty container is reallocated. Smaller containers
// aren't worth the work.
const roomy = 1024

// shrinkingMap is a map that returns memory after a peak: Go's maps never shrink.
type shrinkingMap[K comparable, V any] struct {
	m    map[K]V
	most int // the largest size of m
}

func (t *shrinkingMap[K, V]) put(k K, v V) {
	if t.m == nil {
		t.m = make(map[K]V)
	}
	t.m[k] = v
	t.most = max(t.most, len(t.m))
}

// take removes an element. When only a sixteenth of the elements is left, take moves the rest to a
// new map, in a small part of the time spent on removing the others.
func (t *shrinkingMap[K, V]) take(k K) {
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

// entryList is a list of entries. The usual list has at most a single entry, and then needs no
// memory of its own.
type entryList struct {
	one  [1]*entry
	more *[]*entry // all entries, once there were several at a time
}

// all returns the entries, in order. The slice is valid until the list changes.
func (l *entryList) all() []*entry {
	switch {
	case l.more != nil:
		return *l.more
	case l.one[0] != nil:
		return l.one[:]
	}
	return nil
}

func (l *entryList) empty() bool { return l.one[0] == nil && (l.more == nil || len(*l.more) == 0) }

func (l *entryList) insert(i int, e *entry) {
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

// merge inserts entries at their places in a list that is in order.
func (l *entryList) merge(some []*entry) {
	switch {
	case len(some) == 0:
		return
	case len(some) == 1:
		i, _ := slices.BinarySearchFunc(l.all(), some[0], (*entry).compare)
		l.insert(i, some[0])
		return
	}
	all := append(slices.Clone(l.all()), some...)
	slices.SortFunc(all, (*entry).compare)
	l.one[0], l.more = nil, &all
}

func (l *entryList) add(e *entry) { l.insert(len(l.all()), e) }

func (l *entryList) delete(i int) {
	if l.more == nil {
		l.one[0] = nil
		return
	}
	left := *l.more
	if i == 0 && len(left) > roomy {
		// To move all the others for each request that gets its vote would take time quadratic in
		// their number.
		left[0] = nil
		left = left[1:]
	} else {
		left = slices.Delete(left, i, i+1)
	}
	if c := cap(left); c > roomy && len(left) <= c/4 {
		left = append(make([]*entry, 0, c/2), left...)
	}
	*l.more = left
}

// cut truncates the list to the first n places, after the caller has moved the remaining entries
// there.
func (l *entryList) cut(n int) {
	if l.more == nil {
		if n == 0 {
			l.one[0] = nil
		}
		return
	}
	left := (*l.more)[:n]
	clear((*l.more)[n:])
	if c := cap(left); c > roomy && n <= c/4 {
		left = append(make([]*entry, 0, max(2*n, 4)), left...)
	}
	*l.more = left
}

// bySerial finds the vote of a serial in a list in order of serials.
func (l *entryList) bySerial(s vote.Serial) (i int, ok bool) {
	return slices.BinarySearchFunc(l.all(), s, func(e *entry, s vote.Serial) int { return cmp.Compare(e.serial, s) })
}

// remove removes an entry from a list in order of serials, if present.
func (l *entryList) remove(e *entry) {
	if i, ok := l.bySerial(e.serial); ok && l.all()[i] == e {
		l.delete(i)
	}
}

// replace puts an entry in the place of another.
func (l *entryList) replace(e, by *entry) {
	all := l.all()
	all[slices.Index(all, e)] = by
}

// idleKeys is a first-in, first-out queue of unused keys.
type idleKeys struct {
	all  []idleKey
	gone int // how many elements at the start of all are taken
}

func (l *idleKeys) len() int { return len(l.all) - l.gone }

func (l *idleKeys) first() *idleKey { return &l.all[l.gone] }

func (l *idleKeys) add(r idleKey) {
	if len(l.all) == cap(l.all) && l.gone >= (len(l.all)+1)/2 && l.gone > 0 {
		n := copy(l.all, l.all[l.gone:])
		clear(l.all[n:])
		l.all, l.gone = l.all[:n], 0
	}
	l.all = append(l.all, r)
}

func (l *idleKeys) take() idleKey {
	r := l.all[l.gone]
	l.all[l.gone] = idleKey{}
	l.gone++
	switch n := l.len(); {
	case cap(l.all) > roomy && n <= cap(l.all)/8:
		l.all, l.gone = append(make([]idleKey, 0, 2*n), l.all[l.gone:]...), 0
	case n == 0:
		l.all, l.gone = l.all[:0], 0
	}
	return r
}
