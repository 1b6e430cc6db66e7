package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// TestALengthIsWonByANodeThatVotes once hung: a node's own vote is valid for a lease at once, and
// as long as no majority was, the own voter was asked to extend the vote again and again.
func TestALengthIsWonByANodeThatVotes(t *testing.T) {
	s := awake(t, Options{})
	r := s.Ask(Ask{Node: "a", Key: "k", Length: time.Second})
	s.becomes(r, Granted, time.Second)
}

// TestTwoReadersOfOneNodeCanBothWantTheKeyAlone once waited indefinitely: upgrades of one node
// weren't told apart.
func TestTwoReadersOfOneNodeCanBothWantTheKeyAlone(t *testing.T) {
	s := awake(t, Options{Clients: 1})
	r1 := s.Ask(Ask{Node: "x1", Key: "k", Mode: Shared})
	r2 := s.Ask(Ask{Node: "x1", Key: "k", Mode: Shared})
	s.becomes(r1, Granted, time.Second)
	s.becomes(r2, Granted, time.Second)
	u1 := s.Upgrade(r1)
	u2 := s.Upgrade(r2)
	s.becomes(u2, Failed, time.Second)
	s.is(u1, Waiting)
	s.Release(r2)
	s.becomes(u1, Granted, time.Second)
}

// TestADelayIsKeptByVotersThatHaveNotHeardOfTheLease once failed: at a voter without the news of
// the win, a vote was free as soon as its length was over, without the lock-delay.
func TestADelayIsKeptByVotersThatHaveNotHeardOfTheLease(t *testing.T) {
	s := awake(t, Options{Clients: 2})
	s.Cut("x1", "a")
	s.Run(2 * sceneTTL)
	x1 := s.Ask(Ask{Node: "x1", Key: "k", Length: 500 * time.Millisecond, Delay: time.Second})
	s.becomes(x1, Granted, time.Second)
	s.Break("x1", "b")
	s.Break("x1", "c")
	s.PowerOff("x1")
	x2 := s.Lock("x2", "k")
	s.between("the way to the key", s.becomes(x2, Granted, 3*sceneTTL), 1400*time.Millisecond, 1800*time.Millisecond)
}

// In the test, voter a votes again for a reader, x1, whose earlier vote outlived its length there
// because of the delay; the new vote takes the place of the earlier one. x2 becomes a reader by a
// and b, and x1's upgrade must wait for x2. When x1 kept both votes at a, the upgrade was compared
// with these two alone, and granted by a and c.
func TestAnUpgradeWaitsForAReaderThoughTheVoteForTheUpgradedRequestLapsed(t *testing.T) {
	s := awake(t, Options{Clients: 2})
	x1 := s.Ask(Ask{Node: "x1", Key: "k", Mode: Shared, Length: 400 * time.Millisecond, Delay: 1500 * time.Millisecond})
	s.becomes(x1, Granted, time.Second)
	s.Cut("x1", "a")
	s.Run(600 * time.Millisecond)
	s.Mend("x1", "a")
	s.Run(300 * time.Millisecond)
	votes := s.host("a").p.m.Voter().Votes("k")
	if len(votes) != 1 || votes[0].Residual {
		t.Fatalf("x1 was to have a new vote at a in place of the earlier one: %+v", votes)
	}
	s.Cut("x2", "c")
	x2 := s.Ask(reads("x2"))
	s.becomes(x2, Granted, time.Second)
	x3 := s.Upgrade(x1)
	s.stays(x3, Waiting, sceneTTL/4)
	s.Release(x2)
	s.becomes(x3, Granted, sceneTTL)
}

// TestHoldersAgreeOnTheNumberOfPermits once failed: voters that were restarted one by one accepted
// a request for one of five permits first, and then the holder of one of three permits.
func TestHoldersAgreeOnTheNumberOfPermits(t *testing.T) {
	s := awake(t, Options{Clients: 2})
	x1 := s.Ask(takes("x1", 3))
	s.becomes(x1, Granted, time.Second)
	s.Cut("x2", "a", "b", "c")
	s.Run(2 * sceneTTL)
	x2 := s.Ask(takes("x2", 5))
	for _, v := range []string{"a", "b"} {
		s.Cut("x1", v)
		s.Restart(v)
		s.Mend("x2", v)
		s.Run(sceneTTL / 2)
		s.Mend("x1", v)
		s.stays(x2, Waiting, 2*sceneTTL)
	}
	s.is(x1, Granted)
	s.Release(x1)
	s.becomes(x2, Granted, sceneTTL)
}

// TestAllPermitsCanBeHeldAtOnce requests one permit more than there are. The waiter gets the
// released permit.
func TestAllPermitsCanBeHeldAtOnce(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, n := range []int{1, 2, 3, 16, 128} {
		s := awake(t, Options{Clients: 3})
		var all []*Request
		for i := range n {
			all = append(all, s.Ask(takes([]string{"x1", "x2", "x3"}[i%3], uint16(n))))
		}
		took := s.Now()
		for _, r := range all {
			s.becomes(r, Granted, 3*sceneTTL)
		}
		s.between("to be granted all", s.Now()-took, 0, sceneTTL)
		late := s.Ask(takes("a", uint16(n)))
		s.stays(late, Waiting, sceneTTL)
		s.Release(all[n/2])
		s.becomes(late, Granted, sceneTTL/vote.RefreshesPerTTL)
		if late.Slot != all[n/2].Slot {
			t.Errorf("slot %d of %d came free, and %d is granted", all[n/2].Slot, n, late.Slot)
		}
	}
}

// TestAReleaseWithoutAMinHoldFreesTheKeyAtOnce shows that neither a lock-delay nor a length delays
// a released key.
func TestAReleaseWithoutAMinHoldFreesTheKeyAtOnce(t *testing.T) {
	s := awake(t, Options{Clients: 2})
	x1 := s.Ask(Ask{Node: "x1", Key: "k", Delay: time.Second, Length: time.Second})
	s.becomes(x1, Granted, time.Second)
	s.Run(100 * time.Millisecond)
	s.Release(x1)
	s.becomes(s.Lock("x2", "k"), Granted, 50*time.Millisecond)
}

// TestALengthDecidesWhenADeadNodesKeyIsFree has lengths shorter and longer than the node's session.
func TestALengthDecidesWhenADeadNodesKeyIsFree(t *testing.T) {
	for _, length := range []time.Duration{400 * time.Millisecond, 1900 * time.Millisecond} {
		s := awake(t, Options{Clients: 2, TTL: []time.Duration{0, 0, 0, sceneTTL / 2, 0}})
		x1 := s.Ask(Ask{Node: "x1", Key: "k", Length: length})
		s.becomes(x1, Granted, time.Second)
		s.Run(3 * time.Second)
		s.is(x1, Granted)
		s.PowerOff("x1")
		end := x1.EndAt
		x2 := s.Lock("x2", "k")
		s.becomes(x2, Granted, 3*sceneTTL)
		s.between("the key", time.Duration(s.now-end), 0, length/50+vote.Margin(length)+50*time.Millisecond)
	}
}

// TestReadersAndWritersAreServedInOrder has readers come and go, so that a writer would starve if
// readers could overtake the writer.
func TestReadersAndWritersAreServedInOrder(t *testing.T) {
	s := awake(t, Options{Clients: 3})
	s.Run(calmTTLs*sceneTTL + servedFixed)
	first, writer := s.Ask(reads("x1")), (*Request)(nil)
	for range 10 {
		s.Run(500 * time.Millisecond)
		if writer == nil {
			writer = s.Lock("x2", "k")
			s.Run(500 * time.Millisecond)
		}
		next := s.Ask(reads("x3"))
		s.Run(100 * time.Millisecond)
		if next.State == Granted && writer.State == Waiting {
			t.Fatalf("at %v a reader passes a writer that waits since %v", s.Now(), writer.Asked)
		}
		s.Release(first)
		first = next
	}
	s.is(writer, Granted)
}

// TestALeastHoldIsKeptByVotersThatHaveNotHeardOfTheLease once failed: such a voter counted the
// minimum hold from its vote, perhaps long before the lease.
func TestALeastHoldIsKeptByVotersThatHaveNotHeardOfTheLease(t *testing.T) {
	s := awake(t, Options{Clients: 2})
	s.Cut("x1", "a")
	s.Run(2 * sceneTTL)
	s.CutOneWay("b", "x1")
	x1 := s.Ask(Ask{Node: "x1", Key: "k", MinHold: time.Second})
	s.Run(700 * time.Millisecond)
	s.MendOneWay("b", "x1")
	s.becomes(x1, Granted, time.Second)
	s.Break("x1", "c")
	s.Release(x1)
	x2 := s.Lock("x2", "k")
	s.becomes(x2, Granted, 2*sceneTTL)
	s.between("the way to the key", x2.Had-x1.Had, 990*time.Millisecond, 1300*time.Millisecond)
}

// TestALeastHoldIsKeptThoughAVoterForgetsItsVote once failed: x1 won by the vote of a's earlier
// incarnation, 0.8 s after a had begun its startup quarantine. So a was free to vote for x2 before
// the minimum hold was over. The rows end the lease in different ways.
func TestALeastHoldIsKeptThoughAVoterForgetsItsVote(t *testing.T) {
	for _, row := range []struct {
		name string
		hold time.Duration
		end  func(s *scene, x1 *Request)
	}{
		{"given back", sceneTTL * 73 / 100, func(s *scene, x1 *Request) { s.Release(x1) }},
		{"its holder dies", sceneTTL * 73 / 100, func(s *scene, _ *Request) { s.PowerOff("x1") }},
		{"the longest, given back", sceneTTL, func(s *scene, x1 *Request) { s.Release(x1) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := awake(t, Options{Clients: 2})
			s.Cut("x1", "c")
			s.Run(2 * sceneTTL)
			free := s.Stall("x1", "b", true) // b's messages to x1 are held up
			x1 := s.Ask(Ask{Node: "x1", Key: "k", MinHold: row.hold})
			s.Run(50 * time.Millisecond)
			s.PowerOff("a") // x1 doesn't notice
			s.Start("a")
			s.Run(800 * time.Millisecond)
			free()
			s.becomes(x1, Granted, 3*sceneTTL)
			s.Run(10 * time.Millisecond)
			row.end(s, x1)
			x2 := s.Lock("x2", "k")
			s.becomes(x2, Granted, 4*sceneTTL)
			s.between("the way to the key", x2.Had-x1.Had, row.hold*99/100, row.hold+2*sceneTTL)
		})
	}
}

// TestAFailedRequestMayLeaveItsDelayBehind shows that voters treat a request as a lapsed lease if
// they voted for the request and received no news of its failure. So a TryLock fails with the
// reason that the key is held. (Found by coalescing worlds with dynamic membership: the
// check found no holder.)
func TestAFailedRequestMayLeaveItsDelayBehind(t *testing.T) {
	s := awake(t, Options{Clients: 2, History: true, Net: Net{Least: time.Millisecond, Most: time.Millisecond, Jitter: -1}})
	for _, v := range []string{"a", "b", "c"} {
		s.CutOneWay(v, "x1")
	}
	x1 := s.Ask(Ask{Node: "x1", Key: "k", Try: true, Delay: sceneTTL / 2})
	s.Run(10 * time.Millisecond)
	for _, v := range []string{"a", "b", "c"} {
		s.CutOneWay("x1", v)
	}
	s.becomes(x1, Failed, 2*sceneTTL)
	s.Run(sceneTTL / 5)
	x2 := s.Ask(Ask{Node: "x2", Key: "k", Try: true})
	s.becomes(x2, Failed, time.Second)
	if x2.Wait.Reason != quorum.WaitHeld {
		t.Errorf("it failed since %v", x2.Wait)
	}
	s.Run(time.Millisecond)
	s.becomes(s.Lock("x2", "k"), Granted, sceneTTL)
}

// TestATryLockHearsWhichReaderIsLeft has one of two readers release the key, and one voter learn of
// the release late. This voter has named the released reader, known to the others as over, and the
// others have named the remaining reader. The answers must add up, or the TryLock waits for its
// TTL.
func TestATryLockHearsWhichReaderIsLeft(t *testing.T) {
	s := awake(t, Options{Clients: 3, Net: Net{Least: time.Millisecond, Most: time.Millisecond, Jitter: -1}})
	older := s.Ask(Ask{Node: "x1", Key: "k", Mode: Shared})
	s.becomes(older, Granted, time.Second)
	s.Run(100 * time.Millisecond)
	newer := s.Ask(Ask{Node: "x2", Key: "k", Mode: Shared})
	s.becomes(newer, Granted, time.Second)
	s.Run(100 * time.Millisecond)
	late := s.Stall("x2", "b", false)
	s.Release(newer)
	s.becomes(newer, Released, time.Second)
	try := s.TryLock("x3", "k")
	s.Run(10 * time.Millisecond)
	late() // the delayed messages arrive after a while
	s.becomes(try, Failed, sceneTTL/4)
	s.is(older, Granted)
}
