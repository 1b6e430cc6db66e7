package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

const (
	// voterCheckEvery is the minimum interval between two checks of the voters' states for the log.
	voterCheckEvery = 100 * time.Millisecond

	// outageGrace is how long a voter that has counted, or a majority, must be missing before this
	// is logged. Connections break and are restored within this time.
	outageGrace = time.Second

	// startupGrace is the same for a voter never met before. It is longer, since the nodes of a
	// mesh don't all start at the same moment.
	startupGrace = 5 * time.Second

	// remindEvery is how often the lack of a majority is logged again.
	remindEvery = 10 * time.Minute
)

// notice is one line of the log.
type notice struct {
	level slog.Level
	text  string
	args  []any
}

// voterMonitor decides which lines about the voters are logged: one line when a voter is missing,
// one when the voter is back, and the same for the majority. An operator can page on these lines:
// each means that something has been wrong for longer than a moment, and none is logged while a
// mesh starts normally.
//
// A voterMonitor reads no clock: the caller passes the time and the states of the voters, and gets
// the lines to log.
type voterMonitor struct {
	began          vote.Instant  // when this node started
	quiet          time.Duration // how long no voter counts after its start
	checkedAt      vote.Instant  // when the voters were last checked; zero: never
	checkPending   bool          // a change may have happened since
	voters         map[vote.NodeID]*outage
	majorityOutage outage // the majority's outage
	awaits         string // what this node waits for while it knows no electorate; empty: unknown
}

// outage records how long a voter, or the majority, has been missing.
type outage struct {
	seen     bool         // was present at some time
	since    vote.Instant // since when missing; zero while present
	loggedAt vote.Instant // when the outage was last logged; zero: never
	// A quiet voter counts by itself after a known time; a voter that can't be reached doesn't.
	unreachable vote.Instant // since when missing and not quiet; zero otherwise
	warned      bool         // the outage was logged as a warning
}

// newVoterMonitor returns the voter monitor of a node that starts now. No voter counts for quiet,
// the maximum TTL, after its start.
func newVoterMonitor(now vote.Instant, quiet time.Duration) voterMonitor {
	return voterMonitor{began: now, quiet: quiet, voters: make(map[vote.NodeID]*outage)}
}

// due returns after how long the voters must be checked again even if nothing happens; false if no
// check is needed before something happens.
func (o *voterMonitor) due(now vote.Instant) (time.Duration, bool) {
	if o.checkedAt == 0 {
		return 0, true
	}
	waits := o.checkPending || o.majorityOutage.since != 0
	for _, v := range o.voters {
		waits = waits || v.since != 0 && v.loggedAt == 0 || v.unreachable != 0 && !v.warned
	}
	return max(o.checkedAt.Add(outageGrace/2).Sub(now), 0), waits
}

// isThrottled reports whether the voters were checked just now. Then another check is owed, since
// the present change may be the last event for hours.
func (o *voterMonitor) isThrottled(now vote.Instant) bool {
	o.checkPending = o.checkedAt != 0 && now.Sub(o.checkedAt) < voterCheckEvery
	return o.checkPending
}

// check processes the states of the voters and returns the lines to log.
func (o *voterMonitor) check(now vote.Now, ready bool, voters []quorum.VoterState) []notice {
	o.checkedAt, o.checkPending = now.Slow, false
	var notices []notice
	for name := range o.voters {
		if !slices.ContainsFunc(voters, func(v quorum.VoterState) bool { return v.Name == name }) {
			delete(o.voters, name)
		}
	}
	for i := range voters {
		if n := o.voter(now.Slow, &voters[i]); n != nil {
			notices = append(notices, *n)
		}
	}
	if n := o.majority(now, ready, voters); n != nil {
		notices = append(notices, *n)
	}
	return notices
}

// voter processes the state of one voter.
func (o *voterMonitor) voter(now vote.Instant, v *quorum.VoterState) *notice {
	of := o.voters[v.Name]
	if of == nil {
		of = &outage{}
		o.voters[v.Name] = of
	}
	if v.State == quorum.Reachable {
		was := *of
		*of = outage{seen: true}
		if was.loggedAt == 0 {
			return nil
		}
		return &notice{slog.LevelInfo, "a voter counts again", []any{"voter", v.Name, "after", roughly(now.Sub(was.since))}}
	}
	if of.since == 0 {
		of.since = now
	}
	if v.State == quorum.Quiet {
		of.unreachable = 0
		if of.loggedAt != 0 || !of.seen || now.Sub(of.since) < outageGrace {
			return nil // logged before; or the voter is starting, as this node is
		}
		of.loggedAt = now
		return &notice{slog.LevelInfo, "a voter has restarted, and doesn't count yet", []any{"voter", v.Name, "state", v.String()}}
	}
	if of.unreachable == 0 {
		of.unreachable = now
	}
	// A voter that dies while it is quiet after a restart is no voter that has restarted any more,
	// so the line about the restart doesn't replace the warning.
	if of.warned || now.Sub(of.unreachable) < outageGrace || !of.seen && now.Sub(of.since) < startupGrace {
		return nil
	}
	of.loggedAt, of.warned = now, true
	return &notice{slog.LevelWarn, "a voter doesn't count", []any{"voter", v.Name, "state", v.String()}}
}

// majority processes whether locks can be granted.
func (o *voterMonitor) majority(now vote.Now, ready bool, voters []quorum.VoterState) *notice {
	m := &o.majorityOutage
	if ready {
		was := *m
		*m = outage{seen: true}
		if was.loggedAt == 0 {
			return nil
		}
		return &notice{slog.LevelInfo, "majority back: locks can be granted again", []any{"after", roughly(now.Slow.Sub(was.since))}}
	}
	grace := outageGrace
	if m.since == 0 {
		m.since = now.Slow
	}
	if !m.seen { // the mesh is starting
		m.since, grace = o.began, o.quiet+startupGrace
	}
	away := now.Slow.Sub(m.since)
	if away < grace || m.loggedAt != 0 && now.Slow.Sub(m.loggedAt) < remindEvery {
		return nil
	}
	m.loggedAt = now.Slow
	text := describeVoters(voters)
	if len(voters) == 0 {
		text = "no electorate is known"
		if o.awaits != "" {
			text += ": " + o.awaits
		}
	}
	since := time.UnixMicro(int64(now.Wall)).Add(-away).UTC().Format(time.RFC3339)
	return &notice{slog.LevelWarn, "no majority: locks can't be granted", []any{"since", since, "for", roughly(away), "voters", text}}
}

// roughly formats a duration for people.
func roughly(d time.Duration) string { return fmt.Sprint(d.Round(100 * time.Millisecond)) }

// logVoters logs changes in the states of the voters, and tells the observer.
func (l *loop) logVoters(now vote.Now) {
	if l.leaving || l.voterMonitor.isThrottled(now.Slow) {
		return
	}
	l.voterMonitor.quiet = l.engine.longestTTL() // the voters may have decided on more than is configured
	voters := l.node.Voters(now)
	l.voterMonitor.awaits = ""
	if !l.node.Electorate().Known() {
		st, _ := l.electorateStatus(now)
		l.voterMonitor.awaits = st.Change
	}
	for _, n := range l.voterMonitor.check(now, l.node.Ready(), voters) {
		l.log.Log(context.Background(), n.level, n.text, n.args...)
	}
	l.observeVoters(now, voters)
}
