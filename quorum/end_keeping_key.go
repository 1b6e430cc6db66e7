package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A key can rest for longer than voters can promise (a minimum hold of more than three quarters of
// the maximum TTL). Then the node keeps the request up after the end of its lease, so the request
// keeps its votes. The voters are told that the lease is over by a version that no value has; so
// the end is repeated and confirmed as values are, and a voter of an earlier build passes it on.

// EndKeepingKey tells the voters that a lease is over, and that its request keeps the key for the
// duration left. EventValueSet reports the confirmation by a majority, with the version
// vote.VersionReleased, or vote.VersionEnded for a lease that wasn't unlocked. The request goes on
// until it is released. EndKeepingKey reports whether there is such a lease.
func (q *Requester) EndKeepingKey(now vote.Now, n vote.Number, left time.Duration, lost bool) bool {
	q.begin(now)
	r := q.find(n)
	if r == nil || r.state != stateWon {
		return false
	}
	q.beforeChange(r)
	x := q.coldOf(r)
	x.ends = q.now.Fast.Add(left)
	q.sendEnd(r) // first: the voters show for how long the key rests
	version := vote.VersionReleased
	if lost {
		version = vote.VersionEnded
	}
	q.setVersion(r, version, nil)
	return true
}

// readEach returns view entries that say what their versions say. Entries of other leases, nearly
// always all, aren't copied.
func readEach(views []vote.View, read func(*vote.View)) []vote.View {
	if !slices.ContainsFunc(views, func(s vote.View) bool { return s.Version >= vote.VersionCounted }) {
		return views
	}
	views = slices.Clone(views) // the voter on this node may remember these entries
	for i := range views {
		read(&views[i])
	}
	return views
}
