package sim

import (
	"testing"
	"time"
)

// TestALengthIsWonByANodeThatVotes once hung: a voter's own vote covers a lease at once, and as long as no majority did, it was asked for that again and again.
func TestALengthIsWonByANodeThatVotes(t *testing.T) {
	s := awake(t, Options{})
	r := s.Ask(Ask{Node: "a", Key: "k", Length: time.Second})
	s.becomes(r, Granted, time.Second)
}

// TestTwoReadersOfOneNodeCanBothWantTheKeyAlone once waited for ever: upgrades of one node weren't told apart.
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

// TestADelayIsKeptByVotersThatHaveNotHeardOfTheLease once failed: a vote that had outlasted its length was free at once where the news that it had won
// was lost.
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

// TestHoldersAgreeOnTheNumberOfPermits once failed: voters that were restarted one by one took in a request for one of five first, and then the holder of
// one of three.
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
