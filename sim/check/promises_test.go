package check

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestPromises has voter v promise key k to session a, and then to session b.
func TestPromises(t *testing.T) {
	a, b := vote.SessionID{Node: "a", Incarnation: 1}, vote.SessionID{Node: "b", Incarnation: 2}
	const ttl, at = vote.Instant(10), Moment(time.Second)
	for _, row := range []struct {
		name  string
		first func(*Lease)
		then  func(*Promises)
		slow  vote.Instant // at the second promise
		want  []string
	}{
		{"before the deadline", nil, nil, 5, []string{RulePromises}},
		{"after the deadline", nil, nil, ttl, nil},
		{"after an extension", nil, func(p *Promises) { p.Extended(a, 5, 2*ttl) }, ttl, []string{RulePromises}},
		{"after an extension that is void", nil, func(p *Promises) { p.Extended(a, 5, 2*ttl); p.Void(a, 4) }, ttl, nil},
		{"after an older extension", nil, func(p *Promises) { p.Extended(a, 5, 2*ttl); p.Void(a, 5) }, ttl, []string{RulePromises}},
		{"after a promise while all answers were void, and a length of its own since", nil, func(p *Promises) {
			p.Void(a, 0)
			p.Promised(at, 2, b, lease(nil), 9, 0, true)
			p.Lasts(a, 1, 1, func(*Lease) vote.Instant { return 3 * ttl })
		}, ttl, []string{RulePromises}},
		{"in the delay", func(r *Lease) { r.Delay = 5 }, nil, ttl + 4, []string{RulePromises}},
		{"after the yield", nil, func(p *Promises) { p.Yielded(a, 1, 1) }, 5, nil},
		{"after the yield of an earlier vote", nil, func(p *Promises) { p.Yielded(a, 1, 9) }, 5, []string{RulePromises}},
		{"after the release", nil, func(p *Promises) { p.Released(at, a, 1) }, 5, nil},
		{"after another's release", nil, func(p *Promises) { p.Released(at, b, 1) }, 5, []string{RulePromises}},
		{"between a sync and its answer", nil, func(p *Promises) { p.Synced(a) }, 5, nil},
		{"after a sync whose answer doesn't list the vote", nil, func(p *Promises) { p.Synced(a); p.Answered(a) }, 5, nil},
		{"after a sync whose answer lists the vote", nil, func(p *Promises) {
			p.Synced(a)
			p.Promised(at, 2, a, lease(nil), 1, 0, false)
			p.Answered(a)
		}, 5, []string{RulePromises}},
		{"within a length of its own", nil, func(p *Promises) { p.Lasts(a, 1, 1, func(*Lease) vote.Instant { return 3 * ttl }) }, ttl, []string{RulePromises}},
		{"within a length that was never extended", func(r *Lease) { r.Length = 4 }, nil, 4, []string{RulePromises}},
		{"after a length that was never extended", func(r *Lease) { r.Length = 4 }, nil, 5, nil},
		{"after the session, within a length that was never extended", func(r *Lease) { r.Length = time.Duration(3 * ttl) }, nil, ttl, nil},
		{"in the delay after a length that was never extended", func(r *Lease) { r.Length, r.Delay = 4, 5 }, nil, 5, nil},
		{"a length that was never extended and lapsed too early", func(r *Lease) { r.Length = 4 }, func(p *Promises) { p.Lapsed(4, a, 1, 1) }, 5, []string{RulePromises}},
		{"a length that was never extended and lapsed", func(r *Lease) { r.Length = 4 }, func(p *Promises) { p.Lapsed(5, a, 1, 1) }, 5, nil},
		{"a length that lapsed too early", nil, func(p *Promises) {
			p.Lasts(a, 1, 1, func(*Lease) vote.Instant { return ttl - 1 })
			p.Lapsed(1, a, 1, 1)
		}, ttl, []string{RulePromises}},
		{"a length that lapsed", nil, func(p *Promises) {
			p.Lasts(a, 1, 1, func(*Lease) vote.Instant { return ttl - 1 })
			p.Lapsed(ttl-1, a, 1, 1)
		}, ttl, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var f found
			p := NewPromises("v", f.report)
			p.Extended(a, 1, ttl)
			p.Promised(at, 1, a, lease(row.first), 1, 0, true)
			if row.then != nil {
				row.then(p)
			}
			p.Promised(at, row.slow, b, lease(nil), 2, 0, true)
			f.want(t, row.want...)
		})
	}
}

// TestPromisesOfOneMoment shows that a voter may promise a vote at the moment of the release, since
// timers come first; the released vote no longer binds the voter.
func TestPromisesOfOneMoment(t *testing.T) {
	a, b := vote.SessionID{Node: "a", Incarnation: 1}, vote.SessionID{Node: "b", Incarnation: 2}
	var f found
	p := NewPromises("v", f.report)
	p.Extended(a, 1, 10)
	p.Released(5, a, 1)
	p.Promised(5, 1, a, lease(nil), 1, 0, true)
	p.Promised(5, 1, b, lease(nil), 2, 0, true)
	f.want(t)
}

func TestSerials(t *testing.T) {
	a := vote.SessionID{Node: "a", Incarnation: 1}
	var f found
	p := NewPromises("v", f.report)
	for _, s := range []vote.Serial{1, 3, 2, 4} { // messages may overtake each other
		p.Promised(0, 0, a, lease(nil), s, 0, true)
	}
	p.Promised(0, 0, a, lease(nil), 4, 0, false) // a list of the votes kept
	f.want(t)
	p.Promised(0, 0, a, lease(nil), 2, 0, true)
	f.want(t, RuleSerial)
}
