package lease

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// askEvery is how often a restarted voter repeats its question to the other voters: several times
// within vote.TokenQueryTimeout, so that a lost question costs little.
const askEvery = vote.TokenQueryTimeout / 5

// quiet has the reasons for which a voter's votes don't count, and the state of the voter's startup
// quarantine.
//
// The voter first waits until every promise that its earlier incarnations could have made has
// ended, and then learns the highest token from the other voters. The order matters: a lease's
// token is confirmed only while the votes of the lease are valid, so an earlier question could miss
// the token.
type quiet struct {
	until          vote.Instant // when the promises of earlier incarnations have ended
	asking         bool
	asked          vote.Instant // since when the other voters are asked
	askNext        vote.Instant
	answers        []answer
	over           bool
	suspension     suspension
	withdrawnUntil vote.Instant // withdrawn until then; see Withdraw
	// counts is until when the voter may act, on the fast clock, and registered whether it does:
	// see Count.
	counts     vote.Instant
	registered bool
	broken     bool // an invariant failed: the voter makes and extends no more promises
}

// giveWay begins another quarantine, up to an instant, of a voter that must not count.
func (q *quiet) giveWay(until vote.Instant) {
	*q = quiet{
		suspension: suspendedWithdrew, until: until, withdrawnUntil: q.withdrawnUntil,
		counts: q.counts, registered: q.registered, broken: q.broken,
	}
}

// suspension says whether the voter must not count, regardless of the startup quarantine.
type suspension uint8

const (
	notSuspended      suspension = iota
	suspendedBlocked             // blocked by another configuration; sessions are kept, without promises
	suspendedWithdrew            // the voter has counted and gave way; there are no sessions
)

// answer is another voter's answer to the question for its highest token.
type answer struct {
	from     vote.NodeID
	top      vote.Token
	counting bool
}

// counting reports whether this voter's votes count.
func (l *sessionLayer) counting() bool {
	return l.quiet.over && l.quiet.suspension == notSuspended && l.electorate.member && !l.quiet.broken && l.now.Slow >= l.quiet.withdrawnUntil && l.quiet.registered
}

// Quiet returns a lower bound for the time until this voter's votes count; zero when they count.
func (l *sessionLayer) Quiet() time.Duration {
	switch {
	case l.counting():
		return 0
	case l.quiet.broken, !l.electorate.member, l.quiet.suspension != notSuspended:
		return l.quietTime()
	case l.now.Slow < l.quiet.withdrawnUntil:
		return l.quiet.withdrawnUntil.Sub(l.now.Slow)
	case l.now.Slow < l.quiet.until:
		return l.quiet.until.Sub(l.now.Slow)
	case !l.quiet.registered:
		return l.quietTime() / 10 // unknown: an answer of the register takes some round trips
	default:
		return max(l.quiet.asked.Add(vote.TokenQueryTimeout).Sub(l.now.Slow), time.Millisecond)
	}
}

// KnownToCount reports whether this voter's votes count, and the named node, which is connected,
// has been told so.
func (l *sessionLayer) KnownToCount(node vote.NodeID) bool {
	return l.counting() && slices.ContainsFunc(l.sessions.listed, func(s *session) bool {
		return s.id.Node == node && s.takesVotes() && s.sentCounting
	})
}

// Withdraw makes the voter quiet for another maximum TTL, since another live process has the same
// name or the electorate was recovered by an operator. Promises made before stand.
func (v *Voter) Withdraw(now vote.Now, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	v.quiet.withdrawnUntil = v.now.Slow.Add(v.quietTime())
	v.at(v.quiet.withdrawnUntil)
	return v.end()
}

// SetTerm lets the voter act up to an instant of the fast clock, which doesn't stop while the
// machine is suspended; vote.Never for no limit, as in all meshes without a register. After this
// instant other processes may found another mesh, and the other mesh waits for the leases of this
// mesh no longer than a maximum TTL. So from the instant on the voter refuses all sessions, and
// extends none. The voter keeps its promises, for the case that the voter may act again.
func (v *Voter) SetTerm(now vote.Now, until vote.Instant, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	was := v.counting()
	v.quiet.counts, v.quiet.registered = until, v.quiet.registered || v.now.Fast < until
	v.endTerm()
	if !was && v.counting() {
		v.wake()
	}
	return v.end()
}

// endTerm has the voter refuse all sessions once it may not act any more.
func (v *Voter) endTerm() {
	if v.quiet.registered && v.now.Fast >= v.quiet.counts {
		v.quiet.registered = false
		v.dismiss()
	}
}

// NextTokenQuery reports whether the other voters should now be asked for their highest tokens, and
// returns the nonce that their answers must carry.
func (l *voteLayer) NextTokenQuery(now vote.Now) (nonce uint64, ask bool) {
	if tr := &l.tokens.trust; tr.phase == trustAsking && now.Slow >= tr.askNext {
		tr.askNext = now.Slow.Add(askEvery)
		l.at(tr.askNext)
		return l.trustNonce(), true
	}
	if !l.quiet.asking || now.Slow < l.quiet.askNext {
		return 0, false
	}
	l.quiet.askNext = now.Slow.Add(askEvery)
	l.at(l.quiet.askNext)
	return l.nonce(), true
}

// nonce ties answers to this incarnation's question. An incarnation asks only after its quarantine,
// so none of the answers is too early.
func (l *sessionLayer) nonce() uint64 { return uint64(l.cfg.Self.Incarnation) }

// ReceiveTokenAnswer takes in another voter's answer.
func (v *Voter) ReceiveTokenAnswer(now vote.Now, from vote.NodeID, m *vote.Message, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	a := answer{from, m.Token, m.Counting}
	switch known := from != v.cfg.Self.Node && v.electorate.names(from); {
	case known && v.tokens.trust.phase == trustAsking && m.Nonce == v.trustNonce():
		v.vouch(a)
	case known && v.quiet.asking && m.Nonce == v.nonce():
		i := slices.IndexFunc(v.quiet.answers, func(b answer) bool { return b.from == from })
		if i < 0 {
			v.quiet.answers = append(v.quiet.answers, a)
		} else {
			v.quiet.answers[i] = a
		}
		v.advanceQuiet()
	}
	return v.end()
}

func (v *Voter) advanceQuiet() {
	q := &v.quiet
	if q.suspension != notSuspended {
		return // the other voters are asked for tokens at the very end; see quiet
	}
	if !q.over && v.now.Slow < q.until {
		v.at(q.until)
		return
	}
	if !q.over && !q.asking && !v.electorate.member {
		// No vote of an earlier incarnation can stand under an electorate that this incarnation
		// joins.
		q.over = true
		v.recheckQuietTokens()
	}
	if !q.over && v.cfg.Born {
		// No vote of this voter stands under the electorate, so the tokens of the other founders
		// are none of its concern.
		v.count.LastResort++
		q.over = v.learn(nil, vote.TokenAt(v.now.Wall))
		v.recheckQuietTokens()
		v.wake()
	}
	if !q.over && !q.asking {
		q.asking, q.asked, q.askNext = true, v.now.Slow, v.now.Slow
	}
	if q.asking && v.learned() {
		q.asking, q.over, q.answers = false, true, nil
		v.recheckQuietTokens()
		v.wake()
	}
	if q.asking {
		v.at(q.askNext)
		if end := q.asked.Add(vote.TokenQueryTimeout); end > v.now.Slow {
			v.at(end)
		}
	}
	if q.withdrawnUntil != 0 {
		if v.now.Slow < q.withdrawnUntil {
			v.at(q.withdrawnUntil)
			return
		}
		q.withdrawnUntil = 0
		v.wake()
	}
}

// learned reports whether the answers suffice to know the highest token, and raises the minimum
// token to the highest token.
//
// With n voters and majorities of q (of each half of a joint electorate), any majority that
// included an earlier incarnation of this voter has a member among any n-q+1 of the other voters;
// if these voters remember, the largest of their answers is at least as large as every token that
// the earlier incarnation helped to grant. If too few voters remember (all have restarted), the
// wall clock replaces their memory after a while, but only together with answers from enough other
// voters to form a majority: an isolated voter is of no use to requesters and had better wait for
// the answers.
//
// An answer more than vote.TokenStep above the tokens vouched for by this voter's clock and by the
// other answers is ignored: the answering voter is broken, and a voter that took its minimum token
// from the answer would use up the tokens of every key. The answer is used only as a last resort,
// if there is no majority without the broken voter, and only if a clock could show the token.
func (l *voteLayer) learned() bool {
	l.tokens.trust.vouched = max(l.tokens.trust.vouched, l.electorate.vouched(l.quiet.answers, l.cfg.Self.Node, l.tokens.top))
	limit := l.Limit()
	sane := slices.DeleteFunc(slices.Clone(l.quiet.answers), func(a answer) bool { return a.top > limit })
	if l.electorate.remember(sane) {
		return l.learn(sane, 0)
	}
	if !l.electorate.alone(l.cfg.Self.Node) && l.now.Slow < l.quiet.asked.Add(vote.TokenQueryTimeout) {
		return false
	}
	shown := slices.DeleteFunc(slices.Clone(l.quiet.answers), func(a answer) bool { return a.top > max(limit, vote.MaxFrom(vote.LastClock)) })
	for _, answers := range [...][]answer{sane, shown} {
		if l.electorate.enough(answers, l.cfg.Self.Node) {
			l.count.LastResort++
			return l.learn(answers, vote.TokenAt(l.now.Wall))
		}
	}
	return false
}

// learn raises the minimum token to least and to the largest of the answers in from, and alerts the
// operator to refused answers.
func (l *voteLayer) learn(from []answer, least vote.Token) bool {
	top := least
	for _, a := range from {
		top = max(top, a.top)
	}
	l.tokens.raiseMin(top)
	l.tokens.rebase(l.now)
	for _, a := range l.quiet.answers {
		if !l.trusted(a.top) {
			l.count.Distrusted++
			l.alarmOf(culprit{a.from, a.top, "as the highest that it knows of"})
		}
	}
	return true
}

// wake schedules the keys of all waiting requests, now that votes count.
func (v *Voter) wake() {
	for _, s := range v.sessions.listed {
		v.startTask(&scheduling{s, len(s.all)})
	}
}
