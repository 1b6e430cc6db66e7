package engine

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Stats are the numbers of a node at a moment. The receiver owns the slices.
type Stats struct {
	At           vote.Micros // by the wall clock
	Electorate   ElectorateView
	JointFor     time.Duration // since this node knows that the electorate is joint; zero otherwise
	Quiet        time.Duration // how much longer this node's votes don't count
	RefusedPeers int
	Leases       int // held
	Waiting      int // calls not granted yet
	OldestWait   time.Duration
	Counters
}

// Counters count what has happened since the node's start.
type Counters struct {
	Ends      [EndReasons]uint64 // leases that have ended, by EndReason
	Changes   uint64             // versions of the electorate that came while the node ran
	Busy      time.Duration      // of the loop; zero without an observer
	Pauses    uint64
	PausedFor time.Duration

	LogLines       uint64 // lost
	ObserverEvents uint64 // dropped
	ObserverPanics uint64
}

// Stats returns the numbers of the node; false, and only the counters, if the node has ended.
func (eng *Engine) Stats() (s Stats, alive bool) {
	gave := make(chan Stats, 1)
	if eng.loop.box.post(false, func(now vote.Now) { gave <- eng.loop.stats(now) }) {
		select {
		case s := <-gave:
			return s, true
		case <-eng.loop.done:
		}
	}
	<-eng.loop.done // the loop's fields belong to the caller
	return Stats{Counters: eng.loop.counters()}, false
}

func (l *loop) stats(now vote.Now) Stats {
	s := Stats{
		At: now.Wall, Electorate: l.electorateView(now), Quiet: max(l.node.Quiet(), l.node.HeldFor(now)), RefusedPeers: len(l.node.RefusedPeers(now)),
		Leases: len(l.held.m), Waiting: len(l.calls.m), Counters: l.counters(),
	}
	if since := l.electorate.jointSince; since != 0 {
		s.JointFor = now.Slow.Sub(since)
	}
	for _, c := range l.calls.m {
		s.OldestWait = max(s.OldestWait, time.Duration(now.Wall-c.since)*time.Microsecond)
	}
	return s
}

func (l *loop) counters() Counters {
	c := Counters{
		Ends: l.ends, Changes: l.electorate.changes, Busy: l.work.total, Pauses: l.pauses.count, PausedFor: l.pauses.total,
		LogLines: l.engine.logQueue.Lost(),
	}
	if o := l.observer; o != nil {
		c.ObserverEvents, c.ObserverPanics = o.queue.Dropped(), o.queue.Panics()
	}
	return c
}
