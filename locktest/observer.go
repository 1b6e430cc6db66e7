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

// observer observes the holders of a key. Only the lock under examination keeps the holders apart:
// the atomic operations here merely allow the observer to see two holders at once.
type observer struct {
	p *probe
	// sequence numbers the actions of holders. A larger number was drawn later, in whatever
	// goroutine.
	sequence     atomic.Int64
	acquisitions atomic.Int64
	lost         atomic.Int64
	// counter is read, and written as one more a while later, by each exclusive holder: an update
	// is lost if two holders overlap.
	counter atomic.Int64
	updates atomic.Int64

	mu      sync.Mutex
	holders map[*heldLock]struct{}
	spans   []span
}

// span is the time during which a holder is known to have had the key: at from, at to, and without
// a loss between.
type span struct {
	from, to   int64
	client     string
	maxHolders int // how many holders the key may have at once in this mode; 0 is any number
	token      uint64
}

func (p *probe) newObserver() *observer {
	return &observer{p: p, holders: make(map[*heldLock]struct{})}
}

// criticalSection is the work of a holder, between getting the key and releasing the key.
func (o *observer) criticalSection(g *heldLock, r *rand.Rand) {
	o.acquisitions.Add(1)
	s := span{from: o.sequence.Add(1), client: g.client.name, maxHolders: g.mode.maxHolders}
	if o.p.x.capabilities[HasTokens] && g.mode.maxHolders == 1 {
		s.token = o.p.token(g)
	}
	if g.ended() { // asked after the number was drawn: a lock that is held now was held then, too
		o.countLoss(g)
		return
	}
	o.enter(g)
	count := o.counter.Load()
	o.p.simulateWork(r)
	if g.mode.maxHolders == 1 {
		o.counter.Store(count + 1)
		o.updates.Add(1)
	}
	s.to = o.sequence.Add(1)
	if g.ended() {
		s.to = s.from
		o.countLoss(g)
	}
	o.leave(g, s)
}

// release unlocks. Where many clients contend on a busy machine, the lock may have been lost; such
// a loss is only counted.
func (o *observer) release(g *heldLock) {
	if err := o.p.unlock(o.p.ctx, g); err != nil {
		o.countLoss(g)
	}
}

// countLoss counts a lost lock once: Unlock fails again for a lock found lost in the holder's turn.
func (o *observer) countLoss(g *heldLock) {
	if !g.lost {
		g.lost = true
		o.lost.Add(1)
	}
}

// enter adds a holder, and checks for other clients that believe to be holders.
func (o *observer) enter(g *heldLock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var others []string
	fits := true
	for other := range o.holders {
		if !other.ended() {
			others = append(others, other.client.name+" by "+other.mode.name)
			fits = fits && other.mode.maxHolders == g.mode.maxHolders
		}
	}
	// The holder itself is asked last. The machine may have stopped the holder on its way here for
	// so long that its lock was lost and given to others; but a lock that is held now was held when
	// the others were asked, too.
	if (!fits || g.mode.maxHolders > 0 && len(others) >= g.mode.maxHolders) && !g.ended() {
		slices.Sort(others)
		o.p.inexcusablef("%s got a key by %s, and it is held: %s", g.client.name, g.mode.name, strings.Join(others, ", "))
	}
	o.holders[g] = struct{}{}
}

func (o *observer) leave(g *heldLock, s span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.holders, g)
	o.spans = append(o.spans, s)
}

// check checks everything seen. On a busy machine a few locks may be lost; if most are lost,
// nothing was examined.
func (o *observer) check() {
	for _, text := range overlaps(o.spans) {
		o.p.inexcusablef("%s", text)
	}
	turns, lost := o.acquisitions.Load(), o.lost.Load()
	o.p.checkLossRate(lost, turns)
	if count, alone := o.counter.Load(), o.updates.Load(); lost == 0 && count != alone {
		o.p.inexcusablef("of %d updates by holders who should be alone only %d are left", alone, count)
	}
}

// checkLossRate allows only a few of many locks to be lost.
func (p *probe) checkLossRate(lost, all int64) {
	if lost > all/4 {
		p.errorf("%d of %d locks were lost, or couldn't be unlocked, though no client was kept from the service", lost, all)
	}
}

// overlaps returns the contradictions between spans: more holders of a key at any moment than the
// mode allows.
func overlaps(spans []span) []string {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var texts []string
	var open []span // the spans that reach the beginning of the next
	for _, s := range sorted {
		open = slices.DeleteFunc(open, func(o span) bool { return o.to < s.from })
		for _, o := range open {
			if o.maxHolders != s.maxHolders || s.maxHolders > 0 && len(open) >= s.maxHolders {
				texts = append(texts, fmt.Sprintf("%s held the key from %d to %d, and %s from %d to %d", o.client, o.from, o.to, s.client, s.from, s.to))
			}
		}
		open = append(open, s)
	}
	return texts
}

// tokenRegressions returns the tokens that don't rise from holder to holder. Spans without a token
// are skipped.
func tokenRegressions(spans []span) []string {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var texts []string
	var last span
	for _, s := range sorted {
		if s.token == 0 {
			continue
		}
		if s.token <= last.token {
			texts = append(texts, fmt.Sprintf("%s had the token %d, and %s after it %d", last.client, last.token, s.client, s.token))
		}
		last = s
	}
	return texts
}
