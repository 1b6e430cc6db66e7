package sim

import (
	"time"
)

// Messages for which no node waits (vote.Outbound.Later) may stay in their sender's queue until an
// immediate message on the same connection carries the queue along, or [Options.Coalesce] has
// passed. Order is kept. If the connection breaks or the process crashes, the queued messages are
// lost.

// queued holds the delayed messages of one side of a link.
type queued struct {
	frames  [][]byte
	flushes uint64 // how often the queue was emptied; an earlier timer is void
}

// coalesce queues a frame. The first frame in the queue starts the timer that empties the queue.
func (nw *network) coalesce(p *process, l *link, side uint8, f []byte) {
	q := &l.queued[side]
	if len(q.frames) == 0 {
		nw.w.push(event{at: nw.w.now.Add(nw.w.opt.Coalesce), kind: eventCoalescingEnds, p: p, l: l, side: side, n: q.flushes})
	}
	q.frames = append(q.frames, f)
	nw.w.fig.Coalesced++
}

// coalescingEnds empties the queue when its timer fires, unless the queue was emptied since the
// timer started.
func (nw *network) coalescingEnds(l *link, side uint8, flushes uint64) {
	q := &l.queued[side]
	if q.flushes != flushes {
		return
	}
	nw.w.fig.CoalescedUntilDue += uint64(len(q.frames))
	nw.carry(l, side)
}

// carry sends the queued messages, before any other message goes the same way.
func (nw *network) carry(l *link, side uint8) {
	q := &l.queued[side]
	if len(q.frames) == 0 {
		return
	}
	if l.delivery != delivers { // the link is broken, and this side doesn't know yet
		nw.dropQueued(l, side)
		nw.reset(l, side)
		return
	}
	for _, f := range q.frames {
		nw.dispatch(l, side, ordered, f)
	}
	q.empty()
}

// dropQueued drops the queued messages.
func (nw *network) dropQueued(l *link, side uint8) {
	q := &l.queued[side]
	nw.w.fig.CoalescedLost += uint64(len(q.frames))
	nw.spare = append(nw.spare, q.frames...)
	q.empty()
}

func (q *queued) empty() {
	clear(q.frames)
	q.frames = q.frames[:0]
	q.flushes++
}

// DrawCoalescing draws from a world's seed how long messages may wait in queues: from half a
// millisecond, as in production, to a quarter of the shortest TTL, more than the time between two
// refreshes.
func (o *Options) DrawCoalescing() {
	least := o.MaxTTL
	for _, ttl := range o.TTL {
		if ttl > 0 {
			least = min(least, ttl)
		}
	}
	all := [...]time.Duration{500 * time.Microsecond, 5 * time.Millisecond, 50 * time.Millisecond, least / 20, least / 4}
	o.Coalesce = (draws{o.Seed, "draw"}).pick("linger", all[:]...)
}

// coalescingAtMost returns how much queues add to the time from one holder to the next. If a voter
// among the first that were contacted doesn't answer, the release may wait in a queue on its way to
// another voter, and so may the request before it.
func (nw *network) coalescingAtMost() time.Duration { return 2 * nw.w.opt.Coalesce }

// DrawTurn draws from a world's seed how small the pieces are in which nodes make syncs and take in
// answers.
func (o *Options) DrawTurn() { o.Turn = 1 + int(o.Seed%3) }
