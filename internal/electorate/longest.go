package electorate

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// longestTTL is the longest maximum TTL of all electorates known to a process, as far as a lease
// may still last for as much. Founders by count are quiet for so long, since the mesh that they
// have given up may have granted leases up to its end.
//
// A larger value wears off a drain after the process has learned of a later electorate with a
// smaller one. If that electorate is of the same mesh, leases of the larger value had ended when it
// was decided. If it is of another mesh, the former mesh hasn't acted since the founding, within
// the bound of birth.go or by the register, so such leases end within the drain.
type longestTTL struct {
	value time.Duration
	// while is the longest value of the electorates learned of since the instant from, all of them
	// smaller; from is zero while value is that of the newest electorate.
	while   time.Duration
	from    vote.Instant
	newest  time.Duration // of the newest electorate
	version uint64        // of the newest electorate
}

// note takes in the maximum TTL of an electorate that the process has learned of, after pass. A
// process that has given up its electorate may learn of an earlier version from a process that is
// behind: the value of an earlier version says nothing.
func (l *longestTTL) note(now vote.Instant, version uint64, ttl time.Duration) {
	if vote.SameBirth(version, l.version) && version < l.version {
		return
	}
	l.newest, l.version = ttl, version
	switch {
	case ttl >= l.value:
		l.value, l.while, l.from = ttl, 0, 0
	case l.from == 0:
		l.while, l.from = ttl, now
	default:
		l.while = max(l.while, ttl)
	}
}

// pass lets time pass.
func (l *longestTTL) pass(now vote.Instant) {
	if l.from == 0 || now.Sub(l.from) < Drain(l.value) {
		return
	}
	l.value, l.while, l.from = l.while, 0, 0
	if l.newest < l.value {
		l.while, l.from = l.newest, now
	}
}
