package locktest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// witness watches the holders of one key. Nothing but the lock under examination keeps them apart: what is atomic here only makes it
// possible to see two at once.
type witness struct {
	p *probe
	// clock numbers what holders do. A later number was drawn at a later moment, by whichever goroutine.
	clock atomic.Int64
	turns atomic.Int64
	lost  atomic.Int64
	// count is read, and written as one more a while later, by each holder who is alone: an update is missing if it wasn't.
	count atomic.Int64
	alone atomic.Int64

	mu      sync.Mutex
	present map[*grip]struct{}
	spans   []span
}

// span is one holder's time, as it knows it: it had the key at from and at to, and never lost it between.
type span struct {
	from, to int64
	who      string
	holds    int // how many of its kind may hold the key at once; 0 is any number
	token    uint64
}

func (p *probe) witness() *witness {
	return &witness{p: p, present: make(map[*grip]struct{})}
}

// turn is a holder's work, from after it has the key to before it gives it back.
func (w *witness) turn(g *grip, r *rand.Rand) {
	w.turns.Add(1)
	s := span{from: w.clock.Add(1), who: g.c.name, holds: g.mode.holds}
	if w.p.x.offers[HasTokens] && g.mode.holds == 1 {
		s.token = w.p.token(g)
	}
	if g.ended() { // asked after the number was drawn: a yes says that it was held then, too
		w.lose(g)
		return
	}
	w.enter(g)
	count := w.count.Load()
	w.p.linger(r)
	if g.mode.holds == 1 {
		w.count.Store(count + 1)
		w.alone.Add(1)
	}
	s.to = w.clock.Add(1)
	if g.ended() {
		s.to = s.from
		w.lose(g)
	}
	w.leave(g, s)
}

// release gives the lock back. Where many contend it may have been lost, as it happens on a busy machine, and that is counted only.
func (w *witness) release(g *grip) {
	if err := w.p.unlock(w.p.ctx, g); err != nil {
		w.lose(g)
	}
}

// lose counts a lock that was lost, once: who has found it lost in its turn hears so again from Unlock.
func (w *witness) lose(g *grip) {
	if !g.lost {
		g.lost = true
		w.lost.Add(1)
	}
}

// enter notes a holder, and looks who else believes to be one.
func (w *witness) enter(g *grip) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var others []string
	fits := true
	for o := range w.present {
		if !o.ended() {
			others = append(others, o.c.name+" by "+o.mode.name)
			fits = fits && o.mode.holds == g.mode.holds
		}
	}
	// The holder itself is asked last. It may have been stopped on its way here, for so long that it has lost the lock and others have it; but what
	// is its own still was so when the others were asked.
	if (!fits || g.mode.holds > 0 && len(others) >= g.mode.holds) && !g.ended() {
		slices.Sort(others)
		w.p.wrongf("%s got a key by %s, and it is held: %s", g.c.name, g.mode.name, strings.Join(others, ", "))
	}
	w.present[g] = struct{}{}
}

func (w *witness) leave(g *grip, s span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.present, g)
	w.spans = append(w.spans, s)
}

// judge looks at all that was seen. Locks may be lost now and then, on a machine that is busy; where most are, nothing was examined.
func (w *witness) judge() {
	for _, text := range overlaps(w.spans) {
		w.p.wrongf("%s", text)
	}
	turns, lost := w.turns.Load(), w.lost.Load()
	w.p.tolerate(lost, turns)
	if count, alone := w.count.Load(), w.alone.Load(); lost == 0 && count != alone {
		w.p.wrongf("of %d updates by holders who should be alone only %d are left", alone, count)
	}
}

// tolerate wants no more than a few of many locks to be lost.
func (p *probe) tolerate(lost, all int64) {
	if lost > all/4 {
		p.errorf("%d of %d locks were lost, or couldn't be unlocked, though no client was kept from the service", lost, all)
	}
}

// overlaps says which spans can't be true together: more holders of a key at one moment than may hold it.
func overlaps(spans []span) []string {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var texts []string
	var open []span // those that reach the beginning of the next
	for _, s := range sorted {
		open = slices.DeleteFunc(open, func(o span) bool { return o.to < s.from })
		for _, o := range open {
			if o.holds != s.holds || s.holds > 0 && len(open) >= s.holds {
				texts = append(texts, fmt.Sprintf("%s held the key from %d to %d, and %s from %d to %d", o.who, o.from, o.to, s.who, s.from, s.to))
			}
		}
		open = append(open, s)
	}
	return texts
}

// falls says which tokens don't rise from one holder to the next. Spans without a token are passed over.
func falls(spans []span) []string {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var texts []string
	var last span
	for _, s := range sorted {
		if s.token == 0 {
			continue
		}
		if s.token <= last.token {
			texts = append(texts, fmt.Sprintf("%s had the token %d, and %s after it %d", last.who, last.token, s.who, s.token))
		}
		last = s
	}
	return texts
}
