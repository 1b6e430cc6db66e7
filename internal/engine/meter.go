package engine

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// workEvery is the least time between two events about the work of the loop: an event for each
// round would be as much work as the round.
const workEvery = 100 * time.Millisecond

// Worked says how busy the loop was since the last such event.
type Worked struct {
	At      vote.Micros
	Rounds  int
	Busy    time.Duration
	Longest time.Duration // round
}

// workMeter measures how long the loop is busy. Without an observer nothing is measured, since a
// round reads the clocks once more then.
type workMeter struct {
	since      vote.Instant  // on the slow clock: when the part under way began
	round      time.Duration // the round's parts so far
	reportedAt vote.Instant  // when the observer was last told; zero: never
	recent     Worked        // since then
	total      time.Duration
}

// begin begins a part of a round.
func (m *workMeter) begin(now vote.Instant) { m.since = now }

// pause ends a part of a round.
func (m *workMeter) pause(now vote.Instant) { m.round += max(now.Sub(m.since), 0) }

// end ends a round, and returns what to tell the observer, if it is time.
func (m *workMeter) end(now vote.Now) (report Worked, due bool) {
	m.pause(now.Slow)
	m.recent.Rounds++
	m.recent.Busy += m.round
	m.recent.Longest = max(m.recent.Longest, m.round)
	m.total += m.round
	m.round = 0
	if m.reportedAt != 0 && now.Slow.Sub(m.reportedAt) < workEvery {
		return Worked{}, false
	}
	report, m.recent, m.reportedAt = m.recent, Worked{}, now.Slow
	report.At = now.Wall
	return report, true
}

// observeWork ends the measurement of a round.
func (l *loop) observeWork() {
	if l.observer == nil {
		return
	}
	if report, due := l.work.end(l.clocks.Now()); due && l.observer.Worked != nil {
		tell := l.observer.Worked
		l.observer.queue.Put(func() { tell(report) })
	}
}

// pauseMin is the shortest pause that counts. A busy machine is late by less, as a rule; a pause of
// this length is half of the shortest lease.
const pauseMin = 100 * time.Millisecond

// pauseMeter counts the pauses of this node: times for which the loop had work due and didn't run,
// or for which the machine slept.
type pauseMeter struct {
	last      vote.Instant  // the beginning of the last round, on the slow clock
	clockLead time.Duration // by how much the fast clock is ahead of the slow clock
	count     uint64
	total     time.Duration
}

// note takes in a reading of the clocks at the beginning of a round, and when the round was due.
// The timer of that due time may fire after later rounds, so only the time since the round before
// counts. The fast clock also goes on while the machine sleeps, so a leap of the fast clock alone
// is a sleep, or a wall clock that was set forward.
func (m *pauseMeter) note(now vote.Now, due vote.Instant) {
	lead := now.Fast.Sub(now.Slow)
	pause := max(now.Slow.Sub(max(due, m.last)), 0) + max(lead-m.clockLead, 0)
	m.last, m.clockLead = now.Slow, lead
	if pause >= pauseMin {
		m.count++
		m.total += pause
	}
}
