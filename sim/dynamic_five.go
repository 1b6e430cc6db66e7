package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// ambushFive makes two of five voters propose, each with a helper of its own, so that both need the
// voter between them. The voter between promises to both, and crashes before its disk has stored
// the second promise. The helpers' answers are held up until the voter is back: then the earlier
// ballot goes on, and after it the later ballot.
func (ne *nemesis) ambushFive(voters []*host, r *rand.Rand) (lasts time.Duration) {
	d := ne.w.opt.MaxTTL + fault.Within(r, ne.w.opt.MaxTTL)
	t := &threeVoters{ne.w, r, ne.w.dynamic.newest, voters[0], voters[1], voters[4], d}
	first, second, between := t.first, t.second, t.between
	helper, other := voters[2], voters[3]
	t.nemesis.cutBetween([]*host{first, helper}, []*host{second, other}, bothWays, d)
	answerFirst := t.nemesis.cutUntil(helper, []*host{first}, sendsNothing, d)
	answerSecond := t.nemesis.cutUntil(other, []*host{second}, sendsNothing, d)
	t.promisesTwice(func() {
		t.diesUnsaved(between, func() {
			t.onceLinked([]*host{first, second}, between, answerFirst)
		})
	})
	t.awaits(&pendingFault{host: between, step: stepSends, kind: vote.KindAccepted}, func() {
		t.nemesis.cutFor(first, t.hosts, sendsNothing, t.lasts) // keeps the decision from the others
		answerSecond()
	})
	t.nemesis.proposesFor(first, t.r, t.opt.MaxTTL, func(bool) {})
	return d
}

// promisesTwice waits until the voter between two proposers has received the ballots of both, and
// the second proposer's ballot is the later. Until then the voter's disk is frozen. Then the voter
// is to crash at once, or as soon as the save of the first promise has succeeded or failed.
func (t *threeVoters) promisesTwice(die func()) {
	between := t.between
	thaw := t.freezes(between)
	var earlier vote.Ballot
	byFirst := func() bool { return t.isOf(t.first) }
	t.awaits(&pendingFault{host: between, step: stepReceives, kind: vote.KindPrepare, only: byFirst}, func() {
		t.nemesis.proposesOn(t.version, t.second, t.r, t.opt.MaxTTL)
	})
	t.awaits(&pendingFault{host: between, step: stepReceives, kind: vote.KindPrepare, only: func() bool {
		if a := t.net.received.Consensus.Ballot; t.isOf(t.first) {
			earlier = a
		} else if t.isOf(t.second) {
			return earlier.Counter > 0 && a.Compare(earlier) > 0
		}
		return false
	}}, func() {
		switch t.r.IntN(3) {
		case 0:
			die()
		case 1:
			between.disk.broken = true
			t.faults.lasting(t.lasts, func() { between.disk.broken = false; t.order.disturb() })
			fallthrough
		default:
			t.awaits(&pendingFault{host: between, step: stepSaved}, die)
			thaw()
		}
	})
}
