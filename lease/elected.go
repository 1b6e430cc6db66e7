package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// elected is the electorate that a voter goes by. Where it follows the living, that is the newest one that is in the voter's state
// directory: what it acknowledges under a version it must remember to have reached after a restart.
type elected struct {
	vote.Electorate
	member bool // this voter is in it
}

// Elect has the voter go by another electorate, of which member says whether the voter is in it. Votes and queues persist.
//
// Whoever is voted out ends its sessions: nothing that it says counts any more. Whoever is voted in takes part at once, if it isn't quiet: as long as
// the electorate is joint, a majority of the old voters knows of all leases, and how high tokens stand; after that the floor says it.
func (v *Voter) Elect(now vote.Now, e vote.Electorate, member bool, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	was, floor := v.elected.member, v.tokens.floor
	v.goBy(e)
	if v.tokens.floor > floor {
		v.proposeAnew()
	}
	v.elected.member = v.elected.member && member
	switch {
	case was && !v.elected.member:
		for _, s := range slices.Clone(v.listed) {
			if s.linked {
				v.refuse(s.conn, s.stream, vote.ReasonNotVoter)
				v.unlink(s) // a life that waits for its name is forgotten: no answer to a probe is heard any more
			}
		}
	case !was && v.counting():
		v.wake()
	}
	v.advanceQuiet()
	return v.end()
}

func (v *Voter) goBy(e vote.Electorate) {
	v.elected = elected{e, e.Has(vote.Elector{Name: v.cfg.Self.Node, Dir: v.cfg.Dir})}
	v.raiseFloor(min(e.Floor, saneToken))
}

// proposeAnew gives those votes larger tokens that stand below the floor and haven't won, as far as is known here. They were proposed by what this voter knew
// then. As long as the electorate was joint, a majority of the old voters made up for what it didn't know; from now on nobody may. Requesters hear of it
// before anything that is acknowledged under this electorate, and so before such a vote can win by it alone. (Found by seed 9100002.)
func (v *Voter) proposeAnew() {
	for _, s := range v.listed {
		for _, e := range s.sorted() {
			if e.serial == 0 || e.held || e.token >= v.tokens.floor.Above() {
				continue
			}
			e.token = v.propose(e.key, e.bid)
			v.raise(e.key, e.token)
			v.confirmed(e)
		}
	}
}

// Elected returns the version that the voter goes by.
func (v *Voter) Elected() uint64 { return v.elected.Version }

// Top returns the largest token that the voter knows of any key, and whether its votes count, so that it remembers.
func (v *Voter) Top() (top vote.Token, counting bool) { return v.tokens.top, v.counting() }

// names reports whether a voter has that name.
func (e *elected) names(n vote.NodeID) bool {
	named := func(v vote.Elector) bool { return v.Name == n }
	return slices.ContainsFunc(e.Voters, named) || slices.ContainsFunc(e.Old, named)
}

// halves calls f with each set of voters of which a majority is needed, until one is false.
func (e *elected) halves(f func(voters []vote.Elector) bool) bool {
	return f(e.Voters) && (!e.Joint() || f(e.Old))
}

// count returns how many of some voters have answered, or answered that they remember.
func count(answers []answer, voters []vote.Elector, remember bool) (n int) {
	for _, a := range answers {
		if (a.counting || !remember) && slices.ContainsFunc(voters, func(v vote.Elector) bool { return v.Name == a.from }) {
			n++
		}
	}
	return n
}

// remember reports whether among those that remember there is one of any majority that an earlier life of this voter was part of.
func (e *elected) remember(answers []answer) bool {
	return e.halves(func(voters []vote.Elector) bool {
		n := len(voters)
		return count(answers, voters, true) >= n-(n/2+1)+1
	})
}

// enough reports whether there are as many answers as others are needed for a majority with this voter.
func (e *elected) enough(answers []answer, self vote.NodeID) bool {
	return e.halves(func(voters []vote.Elector) bool {
		need := len(voters)/2 + 1
		if slices.ContainsFunc(voters, func(v vote.Elector) bool { return v.Name == self }) {
			need--
		}
		return count(answers, voters, false) >= need
	})
}

// alone reports whether there is no other voter to ask.
func (e *elected) alone(self vote.NodeID) bool {
	return e.halves(func(voters []vote.Elector) bool { return len(voters) == 1 && voters[0].Name == self })
}
