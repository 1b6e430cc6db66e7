package engine

import (
	"github.com/lockmesh/lockmesh/internal/vote"
)

// table maps the numbers of requests to their values. An emptied table frees its memory if it has
// been large.
type table[V any] struct {
	m    map[vote.Number]V
	most int
}

func (t *table[V]) put(n vote.Number, v V) {
	if t.m == nil {
		t.m = make(map[vote.Number]V)
	}
	t.m[n] = v
	t.most = max(t.most, len(t.m))
}

// take removes and returns an entry; it returns the zero value if there is none.
func (t *table[V]) take(n vote.Number) V {
	v := t.m[n]
	delete(t.m, n)
	if len(t.m) == 0 && t.most > roomyMap {
		t.m, t.most = nil, 0
	}
	return v
}
