package lease

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// trust protects this voter from wrong tokens named by other nodes. The voter accepts a token up to
// vote.TokenStep above its knowledge: its own clock, the clocks of the voters, and the highest
// known token. A larger token is refused, and the other voters are asked for their highest tokens:
// a token confirmed by more voters than may be wrong at once is accepted, too. So a voter with its
// clock in 1970 accepts the tokens of its mesh, and a single node that names a token near the end
// of the range affects no other key.
type trust struct {
	base    vote.Token   // the highest token known here, as of at most baseEvery ago
	baseAt  vote.Instant // when base was taken
	clock   vote.Token   // the latest time on a voter's clock, if ahead of this voter's clock
	vouched vote.Token   // the highest token vouched for by enough voters

	phase   trustPhase
	round   uint64       // the number of the round of questions; ignores answers to earlier rounds
	since   vote.Instant // when the phase began
	askNext vote.Instant
	answers []answer

	refused []culprit // the tokens refused since the last round ended
}

// trustPhase says whether the other voters are being asked for their highest tokens.
type trustPhase uint8

const (
	trustCalm    trustPhase = iota // nothing is refused
	trustAsking                    // a token was refused, and the other voters are being asked
	trustSettled                   // the other voters were asked recently; the next question waits
)

// culprit is the latest refused token of a node.
type culprit struct {
	from  vote.NodeID
	token vote.Token
	where string // in which key or field, for the alarm
}

const (
	// baseEvery is how often the highest known token becomes the new base of the limit. Within this
	// time a single peer can raise tokens by one step only, so a peer that names ever larger tokens
	// can't use up the tokens: using them up would take 200 years.
	baseEvery = time.Minute
	// trustPause is the least time between two rounds of questions to the other voters, and between
	// two reports of refused tokens to the operator: a peer that always names wrong tokens must not
	// fill a log, nor keep all voters busy.
	trustPause = 10 * time.Second
	// culpritsMax is how many nodes are recorded, and named in alarms, in a round.
	culpritsMax = 4
	// clockLead is the least lead of another voter's clock over this voter's clock to be recorded.
	// A smaller lead makes no difference beside TokenStep.
	clockLead = vote.TokenStep / 24
)

// trusted reports whether a peer may know token t, as far as this voter can tell.
func (l *voteLayer) trusted(t vote.Token) bool {
	return t <= vote.MaxFrom(max(vote.TokenAt(l.now.Wall), l.tokens.trust.clock)) || t <= l.Limit()
}

// Limit returns the largest token that this voter accepts from a peer.
func (l *voteLayer) Limit() vote.Token { return l.tokens.limit(l.now) }

// limit returns the largest token to accept from a peer now.
func (n *knownTokens) limit(now vote.Now) vote.Token {
	tr := &n.trust
	if tr.baseAt == 0 || now.Slow.Sub(tr.baseAt) >= baseEvery {
		n.rebase(now)
	}
	return vote.MaxFrom(max(vote.TokenAt(now.Wall), tr.clock, tr.base, tr.vouched))
}

// rebase makes the highest known token the new base of the limit.
func (n *knownTokens) rebase(now vote.Now) { n.trust.base, n.trust.baseAt = n.top, now.Slow }

// takes reports whether the voter accepts a token named by a session's node. If not, takes records
// the token, and the other voters are asked.
func (l *voteLayer) takes(s *session, t vote.Token, k vote.Key) bool {
	if l.trusted(t) {
		return true
	}
	if s.doubted == 0 || t < s.doubted {
		s.doubted = t
	}
	l.distrust(s.id.Node, t, fmt.Sprintf("key %q", k))
	return false
}

// distrust records a refused token.
func (l *voteLayer) distrust(from vote.NodeID, t vote.Token, where string) {
	tr := &l.tokens.trust
	l.count.Distrusted++
	c := culprit{from, t, where}
	if i := slices.IndexFunc(tr.refused, func(o culprit) bool { return o.from == from }); i >= 0 {
		tr.refused[i] = c
	} else if len(tr.refused) < culpritsMax {
		tr.refused = append(tr.refused, c)
	}
	if tr.phase == trustCalm && l.quiet.over {
		l.askForTrust()
	}
}

// askForTrust begins a round of questions to the other voters for their highest tokens.
func (l *voteLayer) askForTrust() {
	tr := &l.tokens.trust
	tr.phase, tr.since, tr.askNext, tr.answers = trustAsking, l.now.Slow, l.now.Slow, nil
	tr.round++
	l.at(l.now.Slow)
}

// trustNonce ties answers to the present round. The nonces continue from the nonce of the startup
// quarantine.
func (l *voteLayer) trustNonce() uint64 { return l.nonce() + l.tokens.trust.round }

// vouch takes in another voter's answer to the question for its highest token.
func (l *voteLayer) vouch(a answer) {
	tr := &l.tokens.trust
	if i := slices.IndexFunc(tr.answers, func(b answer) bool { return b.from == a.from }); i >= 0 {
		tr.answers[i] = a
	} else {
		tr.answers = append(tr.answers, a)
	}
	tr.vouched = max(tr.vouched, l.electorate.vouched(tr.answers, l.cfg.Self.Node, l.tokens.top))
	l.recheckTokens()
	if l.electorate.answered(tr.answers, l.cfg.Self.Node) {
		l.endTrustRound()
	}
}

// advanceTrust ends a round after vote.TokenQueryTimeout, and begins the next round if there is
// still a token to ask about.
func (l *voteLayer) advanceTrust() {
	tr := &l.tokens.trust
	switch {
	case tr.phase == trustAsking && l.now.Slow >= tr.since.Add(vote.TokenQueryTimeout):
		l.endTrustRound()
	case tr.phase == trustAsking:
		l.at(tr.askNext)
		l.at(tr.since.Add(vote.TokenQueryTimeout))
	case tr.phase == trustSettled && l.now.Slow < tr.since.Add(trustPause):
		l.at(tr.since.Add(trustPause))
	case tr.phase == trustSettled && (len(tr.refused) > 0 || l.doubts()):
		l.askForTrust()
	case tr.phase == trustSettled:
		l.recheckTokens() // this node's clock may have been set meanwhile
		tr.phase = trustCalm
	}
}

// endTrustRound alerts the operator to the tokens still refused after the other voters were asked.
func (l *voteLayer) endTrustRound() {
	tr := &l.tokens.trust
	tr.phase, tr.since, tr.answers = trustSettled, l.now.Slow, nil
	for _, c := range tr.refused {
		if !l.trusted(c.token) {
			l.alarmOf(c)
		}
	}
	tr.refused = nil
	l.at(tr.since.Add(trustPause))
}

// alarmOf alerts the operator to a node that has named a wrong token.
func (l *voteLayer) alarmOf(c culprit) {
	if c.from == l.cfg.Self.Node {
		l.alarm("the token %d (%s) is refused: this voter takes none above %d, a day above the clocks and tokens that it knows of; tokens "+
			"go on from there. See docs/fencing.md for a resource that was written with such a token", c.token, c.where, l.Limit())
		return
	}
	l.alarm("node %q named the token %d (%s), which is refused: this voter takes none above %d, a day above the clocks and tokens that it "+
		"knows of. Check the clock of %q, and restart that node", c.from, c.token, c.where, l.Limit(), c.from)
}

// doubts reports whether a token of a session, or the minimum token of the electorate, is still
// refused.
func (l *voteLayer) doubts() bool {
	for _, s := range l.sessions.listed {
		if s.doubted != 0 && len(s.entries.m) == 0 {
			s.doubted = 0 // the lease with the refused token has ended
		}
		if s.doubted != 0 {
			return true
		}
	}
	return l.electorate.MinToken > l.Limit()
}

// recheckTokens makes the sessions resync that have a refused token now known to be right, and also
// applies the electorate's minimum token if the minimum token was refused before and is now known
// to be right.
func (l *voteLayer) recheckTokens() {
	limit := l.Limit()
	for _, s := range l.sessions.listed {
		if s.doubted != 0 && s.doubted <= limit {
			s.doubted = 0
			if s.takesVotes() {
				l.unknown(s.conn, s.stream)
			}
		}
	}
	if l.electorate.unraised && l.electorate.MinToken <= limit {
		l.electorate.unraised = false
		l.tokens.raiseMin(l.electorate.MinToken)
		l.proposeAgain()
	}
}

// holdUnchecked records a lease reported by a node while this voter is quiet, under a token that
// may be wrong: the voter learns the highest token only at the end of its quarantine. The voter
// promises nothing before the end, so the token only affects the lease's place in the queue.
func (e *entry) holdUnchecked(now vote.Instant, t vote.Token) {
	e.token = t
	if !e.held {
		e.hold(now)
	}
}

// recheckQuietTokens checks the tokens recorded by holdUnchecked: a lease with an acceptable token
// stands as any lease does, and a lease with a refused token becomes an ordinary waiting request.
// Entries with a vote are skipped: the change would put them into the queue beside their own votes.
func (v *Voter) recheckQuietTokens() {
	limit := v.Limit()
	for _, s := range v.sessions.listed {
		if s.doubted == 0 {
			continue
		}
		s.doubted = 0
		for _, e := range s.sorted(func(e *entry) bool { return e.held && e.serial == 0 }) {
			switch k := e.key; {
			case e.token <= limit:
				v.raise(k, e.token)
				v.report(vote.Holding, e)
			default:
				if s.doubted == 0 || e.token < s.doubted {
					s.doubted = e.token
				}
				v.dequeue(e)
				e.held, e.wonAt, e.token = false, 0, 0
				k.insert(e)
			}
		}
	}
	if len(v.tokens.trust.refused) > 0 {
		v.askForTrust()
	}
}

// NoteVoterClocks takes in the latest time on the clocks of the voters, as the node's requester
// knows them. Tokens begin with clocks, so a token named by a voter may be as far ahead as a
// voter's clock.
func (l *voteLayer) NoteVoterClocks(wall vote.Micros) {
	l.tokens.trust.clock = 0
	if t := vote.TokenAt(wall); t > vote.TokenAt(l.now.Wall)+clockLead {
		l.tokens.trust.clock = t
	}
}

// vouched returns the largest token vouched for by enough voters: each of them knows a token at
// least as large, and they share a voter with every majority, so they can't all be wrong at once.
// This voter's own knowledge counts as well, and a single voter out of several is never enough. In
// a joint electorate either half suffices.
func (e *appliedElectorate) vouched(answers []answer, self vote.NodeID, own vote.Token) (top vote.Token) {
	e.halves(func(voters []vote.Elector) bool {
		var all []vote.Token
		for _, w := range voters {
			if w.Name == self {
				all = append(all, own)
			}
			for _, a := range answers {
				if a.from == w.Name {
					all = append(all, a.top)
				}
			}
		}
		n := len(voters)
		need := max(n-(n/2+1)+1, min(n, 2))
		if e.Joint() {
			need = max(need, 2)
		}
		slices.SortFunc(all, func(a, b vote.Token) int { return cmp.Compare(b, a) })
		if len(all) >= need {
			top = max(top, min(all[need-1], vote.MaxMinToken))
		}
		return true
	})
	return top
}

// answered reports whether all other voters have answered.
func (e *appliedElectorate) answered(answers []answer, self vote.NodeID) bool {
	return e.halves(func(voters []vote.Elector) bool {
		return !slices.ContainsFunc(voters, func(w vote.Elector) bool {
			return w.Name != self && !slices.ContainsFunc(answers, func(a answer) bool { return a.from == w.Name })
		})
	})
}
