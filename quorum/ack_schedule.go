package quorum

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// ackDelayLeast is the least time that a request waits before the voters are asked whether they
	// have processed the request, unless its caller waits for less than four times as long. Most
	// locks take less. Where voters are far away the time is ackDelayTrips round trips: a lock
	// takes one or two.
	ackDelayLeast = 50 * time.Millisecond
	ackDelayTrips = 3

	// ackEvery is the least time between two such refreshes of a voter, while callers wait for
	// longer than ackDelayLeast.
	ackEvery = 50 * time.Millisecond

	// ackEveryLeast is the same while callers wait for less.
	ackEveryLeast = 2 * time.Millisecond
)

// ackSchedule schedules when the voters are asked next whether they have processed the pending
// requests, and how often each voter is asked at most. The schedule holds for all pending requests
// together, and is of no use while none is pending.
type ackSchedule struct {
	at       vote.Instant
	every    time.Duration // the least time between two questions to a voter
	lastSent vote.Instant  // when a request was last sent to a voter
}

// schedule schedules the question after a delay, unless an earlier time is scheduled, and at most
// once per every. Where a request pends alone, a time in the past was scheduled for requests that
// are over.
func (s *ackSchedule) schedule(now vote.Instant, after, every time.Duration, alone bool) {
	if alone && s.at <= now {
		s.reset()
	}
	s.at = min(s.at, now.Add(after))
	s.every = min(s.every, every)
}

// take returns the least time between two questions to a voter, and ends the schedule: the voters
// are asked now.
func (s *ackSchedule) take() time.Duration {
	every := s.every
	s.reset()
	return every
}

// reset ends the schedule.
func (s *ackSchedule) reset() { s.at, s.every = vote.Never, ackEvery }
