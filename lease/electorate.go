package lease

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// appliedElectorate is the electorate that a voter applies. With dynamic membership, this is the
// newest electorate in the voter's state directory: a voter that has acknowledged messages under a
// version must still know the version after a restart.
type appliedElectorate struct {
	vote.Electorate
	member bool // this voter belongs to the electorate
	// unraised: the electorate's minimum token was refused, and votes that haven't won may have
	// smaller tokens.
	unraised bool
}

// Reconfigure makes the voter apply another electorate. The voter becomes a member if the
// electorate lists the voter and member is true. Votes and queues persist.
//
// A voter that is voted out refuses its sessions: its messages no longer count. A voter that is
// voted in takes part at once, unless quiet: while the electorate is joint, a majority of the old
// voters knows all leases and the highest tokens; afterwards the minimum token of the electorate
// covers the highest tokens.
func (v *Voter) Reconfigure(now vote.Now, e vote.Electorate, member bool, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	before, minToken := v.electorate, v.tokens.min
	was := before.member
	v.setElectorate(e)
	// The voter's own minimum token may be as large as the electorate's already, by a forgotten
	// key, which bound no vote for another key.
	if v.tokens.min > minToken || e.MinToken > before.MinToken || before.unraised {
		v.proposeAgain()
	}
	v.electorate.member = v.electorate.member && member
	switch {
	case was && !v.electorate.member:
		v.dismiss()
	case !was && v.counting():
		v.wake()
	}
	v.advanceQuiet()
	if !was && v.electorate.member && v.electorate.Joint() && v.quiet.over {
		// The old voters may know tokens that no clock here shows, and soon there may be no old
		// voters left to ask.
		v.askForTrust()
	}
	return v.end()
}

// dismiss refuses all sessions, since this voter's messages don't count any more. Promises made
// before stand.
func (v *Voter) dismiss() {
	for _, s := range slices.Clone(v.sessions.listed) {
		if s.isLinked() {
			v.refuse(s.conn, s.stream, vote.ReasonNotVoter)
			// A candidate for a name is removed here, since no answer to a probe can arrive any
			// more.
			v.unlink(s)
		}
	}
}

// grantLimit returns the longest time for which this voter extends a session or a vote. A requester
// computes the same from the version in each acknowledgement.
func (l *sessionLayer) grantLimit() time.Duration { return l.electorate.GrantLimit(l.cfg.MaxTTL) }

// quietTime returns how long this voter is quiet when it may have forgotten promises, or has to let
// its promises end.
func (l *sessionLayer) quietTime() time.Duration { return l.electorate.QuietTime(l.cfg.MaxTTL) }

// mayAsk returns the longest TTL or length that a requester may ask for. While the voters decide on
// the maximum TTL, a requester may be configured for more than they grant; it knows what they
// grant.
func (l *sessionLayer) mayAsk() time.Duration {
	if l.electorate.MaxTTL > 0 {
		return vote.LongestTTL
	}
	return l.cfg.MaxTTL
}

func (l *voteLayer) setElectorate(e vote.Electorate) {
	l.electorate = appliedElectorate{Electorate: e, member: e.Has(vote.Elector{Name: l.cfg.Self.Node, Dir: l.cfg.Dir})}
	for _, s := range l.sessions.listed {
		s.ttl = min(s.asked, l.grantLimit())
	}
	if l.trusted(e.MinToken) {
		l.tokens.raiseMin(e.MinToken)
		return
	}
	l.electorate.unraised = true
	l.tokens.raiseMin(vote.TokenAt(l.now.Wall))
	l.distrust(l.cfg.Self.Node, e.MinToken, fmt.Sprintf("as the minimum token of electorate %d",
		e.Version))
}

// proposeAgain gives larger tokens to the votes that are below the minimum token and haven't won,
// as far as this voter knows. The voter proposed their tokens from its knowledge at the time. While
// the electorate was joint, a majority of the old voters made up for missing knowledge; from now on
// perhaps no voter does. Requesters receive the new tokens before any acknowledgement under this
// electorate, and so before a vote with an old token can win under this electorate alone.
func (l *voteLayer) proposeAgain() {
	l.stateAnew()
	for _, s := range l.sessions.listed {
		tentative := func(e *entry) bool { return e.serial != 0 && !e.held && e.token < l.tokens.min.Above() }
		for _, e := range s.sorted(tentative) {
			e.token, e.tokenChanged = l.propose(e.key, e.tokenHint), true
			l.raise(e.key, e.token)
			l.confirmed(e)
		}
	}
}

// ConfigEpoch returns the version of the electorate that the voter applies.
func (l *sessionLayer) ConfigEpoch() uint64 { return l.electorate.Version }

// Top returns the largest token of any key known to the voter, and whether the voter's votes count,
// so that the voter remembers its promises.
func (l *voteLayer) Top() (top vote.Token, counting bool) { return l.tokens.top, l.counting() }

// names reports whether a voter of the electorate, old or new, has the name n.
func (e *appliedElectorate) names(n vote.NodeID) bool {
	named := func(v vote.Elector) bool { return v.Name == n }
	return slices.ContainsFunc(e.Voters, named) || slices.ContainsFunc(e.Old, named)
}

// halves reports whether f returns true for each set of voters in which a majority is needed. The
// calls of f stop at the first false.
func (e *appliedElectorate) halves(f func(voters []vote.Elector) bool) bool {
	return f(e.Voters) && (!e.Joint() || f(e.Old))
}

// count returns how many of the voters have answered; with remember, only voters that remember are
// counted.
func count(answers []answer, voters []vote.Elector, remember bool) (n int) {
	for _, a := range answers {
		if (a.counting || !remember) && slices.ContainsFunc(voters, func(v vote.Elector) bool { return v.Name == a.from }) {
			n++
		}
	}
	return n
}

// remember reports whether the answers of voters that remember include a member of every majority
// that an earlier incarnation of this voter was part of.
func (e *appliedElectorate) remember(answers []answer) bool {
	return e.halves(func(voters []vote.Elector) bool {
		n := len(voters)
		return count(answers, voters, true) >= n-(n/2+1)+1
	})
}

// enough reports whether this voter and the voters that have answered form a majority.
func (e *appliedElectorate) enough(answers []answer, self vote.NodeID) bool {
	return e.halves(func(voters []vote.Elector) bool {
		need := len(voters)/2 + 1
		if slices.ContainsFunc(voters, func(v vote.Elector) bool { return v.Name == self }) {
			need--
		}
		return count(answers, voters, false) >= need
	})
}

// alone reports whether there is no other voter to ask.
func (e *appliedElectorate) alone(self vote.NodeID) bool {
	return e.halves(func(voters []vote.Elector) bool { return len(voters) == 1 && voters[0].Name == self })
}
