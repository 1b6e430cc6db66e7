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
