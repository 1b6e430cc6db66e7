package sim

import (
	"math/rand/v2"
	"time"
)

// Words that nobody waits for (vote.Outbound.Later) may stay in the sender's queue of their connection until a word that goes at once carries them
// along, or [Options.Linger] is over. Order is kept. A connection that breaks, or a process that dies, takes with it what lingers.

// queued is what lingers in the queue of one side of a link.
type queued struct {
	frames [][]byte
	turn   uint64 // how often the queue was emptied; a timer of an earlier turn is void
}

// linger puts a frame into the queue. The first has it emptied in a while.
func (w *World) linger(p *process, l *link, side uint8, f []byte) {
	q := &l.queued[side]
	if len(q.frames) == 0 {
		w.push(event{at: w.now.add(w.opt.Linger), kind: eventLinger, p: p, l: l, side: side, n: q.turn})
	}
	q.frames = append(q.frames, f)
	w.fig.Lingered++
}

// lingered empties the queue when its time has come, unless it was emptied since.
func (w *World) lingered(l *link, side uint8, turn uint64) {
	q := &l.queued[side]
	if q.turn != turn {
		return
	}
	w.fig.LingeredOut += uint64(len(q.frames))
	w.carry(l, side)
}

// carry sends what lingers, before anything else goes the same way.
func (w *World) carry(l *link, side uint8) {
	q := &l.queued[side]
	if len(q.frames) == 0 {
		return
	}
	if l.fate != fateStands { // it is broken, and this side hasn't heard of that
		w.unsaid(l, side)
		w.reset(l, side)
		return
	}
	for _, f := range q.frames {
		w.dispatch(l, side, ordered, f)
	}
	q.empty()
}

// unsaid loses what lingers.
func (w *World) unsaid(l *link, side uint8) {
	q := &l.queued[side]
	w.fig.LingeredLost += uint64(len(q.frames))
	w.spare = append(w.spare, q.frames...)
	q.empty()
}

func (q *queued) empty() {
	clear(q.frames)
	q.frames = q.frames[:0]
	q.turn++
}

// DrawLinger draws from a world's seed how long words may linger in it: from what production allows to a quarter of the shortest TTL, which is longer
// than the time from one refresh to the next.
func (o *Options) DrawLinger() {
	least := o.MaxTTL
	for _, ttl := range o.TTL {
		if ttl > 0 {
			least = min(least, ttl)
		}
	}
	all := [...]time.Duration{500 * time.Microsecond, 5 * time.Millisecond, 50 * time.Millisecond, least / 20, least / 4}
	o.Linger = all[rand.New(rand.NewPCG(o.Seed, 2)).IntN(len(all))]
}

// lingersAtMost is what lingering adds to the time from one holder to the next: where one of those who were told first doesn't answer, the release
// lingers on its way to another, and so may the request have done.
func (w *World) lingersAtMost() time.Duration { return 2 * w.opt.Linger }
