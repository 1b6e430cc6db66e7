package top

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// hotMost is how many keys have a count of grants. A count takes some hundred bytes with the key,
// so that a mesh with millions of short-lived keys costs this process a megabyte or two.
const hotMost = 4096

// seen is the report of a watch between two looks.
type seen struct {
	keys  map[string]int // grants by key, for the keys counted singly
	total int            // all grants
	gaps  int            // how often events may be missing
	live  bool           // the watch reports events as they happen
	why   string         // why the watch doesn't, as far as known
}

// tally counts the grants of a watch until the next look. Counting bounds the work of the screen: a
// thousand grants in a second are one message. The methods may be called from any goroutine.
type tally struct {
	mu sync.Mutex
	n  seen
}

// event counts an event of a watch by its kind.
func (t *tally) event(kind, key string, current bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind {
	case "synced":
		t.n.live, t.n.why = true, ""
	case "gap":
		t.n.gaps++
	case "granted":
		if current {
			return // a grant from before
		}
		t.n.total++
		if t.n.keys == nil {
			t.n.keys = make(map[string]int)
		}
		if _, ok := t.n.keys[key]; ok || len(t.n.keys) < hotMost {
			t.n.keys[key]++
		}
	}
}

// ended notes that the watch has ended, and why.
func (t *tally) ended(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n.live {
		t.n.gaps++
	}
	t.n.live, t.n.why = false, why
}

// take returns the count since the last call.
func (t *tally) take() seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.n
	t.n = seen{live: n.live, why: n.why}
	return n
}

// hot has the keys granted most since the start. The number of keys is bounded by hotMost: when
// there are more, the half with the fewest grants is forgotten, and a forgotten key begins at zero
// again.
type hot map[string]int

// add adds grants of keys.
func (h hot) add(keys map[string]int) {
	for k, n := range keys {
		h[k] += n
	}
	if len(h) <= hotMost {
		return
	}
	for _, k := range h.keys()[hotMost/2:] {
		delete(h, k)
	}
}

// keys returns all keys, those with the most grants first and equal ones by name.
func (h hot) keys() []string {
	keys := slices.Collect(maps.Keys(h))
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(h[b], h[a]), cmp.Compare(a, b))
	})
	return keys
}

const (
	// rateWindow is the time over which grants are averaged: short enough to see a burst, long
	// enough to read the number.
	rateWindow = 10 * time.Second

	// rateMost is how many points a rate keeps: more than looks fit into the window.
	rateMost = int(rateWindow/MinEvery) + 2
)

// rate is the number of grants in a second, over the last rateWindow.
type rate struct {
	points []point // the oldest first
	total  int     // all grants since the start
	since  time.Time
}

// point is a total at a time.
type point struct {
	at    time.Time
	total int
}

// add adds the grants seen until a time.
func (r *rate) add(at time.Time, n int) {
	if r.since.IsZero() {
		r.since = at
		r.points = append(r.points, point{at, 0})
		return // grants from before the first look were counted for an unknown time
	}
	r.total += n
	r.points = append(r.points, point{at, r.total})
	for len(r.points) > rateMost || len(r.points) > 2 && at.Sub(r.points[1].at) >= rateWindow {
		r.points = r.points[1:]
	}
}

// pause forgets the points: the time until the next look isn't one in which grants were seen.
func (r *rate) pause() { r.points = nil }

// perSecond returns the rate; false while there is too little to tell.
func (r *rate) perSecond() (float64, bool) {
	if len(r.points) < 2 {
		return 0, false
	}
	first, last := r.points[0], r.points[len(r.points)-1]
	span := last.at.Sub(first.at)
	if span <= 0 {
		return 0, false
	}
	return float64(last.total-first.total) / span.Seconds(), true
}
