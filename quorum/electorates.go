package quorum

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// electorates are the electorates in use by a requester. With dynamic membership, voters hear of a
// new version one after the other, and each acknowledgement counts under the config epoch of its
// voter. So a lease may rest on the newest version known here, or on the version before.
//
// Why this is safe: two consecutive versions have a half in common, so any two of their majorities
// share a voter. And a version is decided only once no lease can rest any more on the last version
// but one: a majority of the common half has used the version in between for longer than any
// earlier acknowledgement lasts.
type electorates struct {
	decided        vote.Electorate
	newest, before Electorate
	lapsesAt       vote.Instant // when the electorate before is of no use any more
	// The least and the most time for which a voter of either extends this node's session.
	leastTTL, mostTTL time.Duration
	// The most that was granted before these electorates, and until when that may support a lease.
	wasMost      time.Duration
	wasMostUntil vote.Instant
}

// validity is until when a voter upholds its votes: under the newest electorate, and under the
// electorate before. Zero means not at all.
type validity struct {
	newest, before vote.Instant
}

// last returns the later of the two instants.
func (c validity) last() vote.Instant { return max(c.newest, c.before) }

// add returns both instants, later by d.
func (c validity) add(d time.Duration) validity { return validity{c.newest.Add(d), c.before.Add(d)} }

// Electorate returns the newest electorate known to this node.
func (e *electorates) Electorate() Electorate { return e.newest }

// decides reports whether the voters of s are a majority under one of the electorates.
func (e *electorates) decides(s Set) bool { return e.newest.Decides(s) || e.before.Decides(s) }

// knowsHeld reports whether a lease is known to be held if all voters of s report the lease: under
// each electorate, one of these voters would have heard of its end.
func (e *electorates) knowsHeld(s Set) bool {
	return e.newest.meetsEveryMajority(s) && (!e.before.Known() || e.before.meetsEveryMajority(s))
}

// ttl returns how long a session lasts at least without a refresh: the configured TTL, unless the
// voters grant less.
func (e *electorates) ttl() time.Duration { return e.leastTTL }

// every returns the time from one refresh to the next.
func (e *electorates) every() time.Duration { return e.ttl() / vote.RefreshesPerTTL }

// patience returns how long a voter may be silent. A long sync takes a while to arrive, and a voter
// that must first find out which of two processes has this node's name takes a while to answer.
func (e *electorates) patience(p *peer) time.Duration {
	if !p.answered {
		return e.ttl()
	}
	return silence(e.ttl())
}

// answerTimeout returns how long an answer may take before it is considered lost. Regular refreshes
// are as far apart, so the next refresh tells the voter of a lost answer; where round trips are
// long, a later refresh does.
func (e *electorates) answerTimeout(p *peer) time.Duration { return max(e.every(), 3*p.rtt) }

// isBornByCount reports whether the electorate is of a mesh without state directories.
func (e *electorates) isBornByCount() bool { return vote.BornByCount(e.decided.Version) }

// extendValidity records that a voter with a config epoch upholds its votes until an instant. An
// acknowledgement is of no use under any config epoch but the two in use here.
//
// The voter was asked at an instant for a TTL, and grants at most what its voters have decided
// under its version. So until is computed here, by the version.
func (e *electorates) extendValidity(c *validity, elected uint64, asked vote.Instant, ttl time.Duration) {
	switch elected {
	case e.newest.version:
		c.newest = max(c.newest, asked.Add(vote.Validity(e.newest.granted(ttl))))
	case e.before.version:
		c.before = max(c.before, asked.Add(vote.Validity(e.before.granted(ttl))))
	}
}

// granted returns the least and the most time for which a voter extends a session or a vote, if
// asked for a TTL: under the newest electorate, or under the electorate before.
func (e *electorates) granted(ttl time.Duration) (least, most time.Duration) {
	least = e.newest.granted(ttl)
	most = least
	if e.before.Known() {
		d := e.before.granted(ttl)
		least, most = min(least, d), max(most, d)
	}
	return least, most
}

// beforeEnds returns when the electorate before the newest lapses.
func (e *electorates) beforeEnds() vote.Instant {
	if e.before.Known() {
		return e.lapsesAt
	}
	return vote.Never
}

// granted returns for how long the voters extend a session or a vote, if asked for a TTL.
func (e *Electorate) granted(ttl time.Duration) time.Duration {
	if e.grants > 0 {
		return min(ttl, e.grants)
	}
	return ttl
}
