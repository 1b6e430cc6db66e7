package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Counting reports whether the voter's votes count.
func (l *sessionLayer) Counting() bool { return l.counting() }

// Hold stops a voter from counting, or lets the voter count again, as nodes with another
// configuration come and go. Hold is for voters that have not counted since they started or gave
// way; see [Voter.GiveWay].
func (v *Voter) Hold(now vote.Now, hold bool, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	switch {
	case hold && v.quiet.suspension == notSuspended:
		v.quiet.suspension = suspendedBlocked
		v.quiet.asking, v.quiet.over, v.quiet.answers = false, false, nil
	case !hold && v.quiet.suspension != notSuspended:
		v.quiet.suspension = notSuspended
		v.advanceQuiet()
	}
	return v.end()
}

// GiveWay ends the voter's part at once: all sessions end, and a refusal tells each connected
// requester that the voter's promises are void. The voter doesn't count again until Hold allows,
// and until every promise has ended on which an unreachable requester may still rely.
func (v *Voter) GiveWay(now vote.Now, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	v.quiet.giveWay(v.now.Slow.Add(v.quietTime()))
	for _, s := range slices.Clone(v.sessions.listed) {
		if !v.sessions.has(s) {
			continue
		}
		if s.isLinked() {
			v.refuse(s.conn, s.stream, vote.ReasonDeposed)
		}
		v.remove(s)
	}
	return v.end()
}
