package sim

import (
	"slices"
	"testing"
)

// TestDynamicMaxVotersAloneChanges restarts two of three voters with MaxVoters 5 instead of 3, one
// after the other. Once a majority has the new limit, a joint electorate with equal halves changes
// the limit. A lease outlives the change.
func TestDynamicMaxVotersAloneChanges(t *testing.T) {
	t.Parallel()
	most := make(map[string]int)
	s := mesh(t, 3, []string{"y"}, Dynamic{MaxVoters: 3, Most: most})
	if e := s.dynamic.Electorate(); e.Most != 3 {
		t.Fatalf("the founders have decided on %+v", e)
	}
	s.Run(2 * sceneTTL)
	y := s.holds("y", "k")
	again := func(name string) {
		s.PowerOff(name)
		most[name] = 5
		s.Start(name)
	}
	again("a")
	s.unchanged(4 * sceneTTL) // one of three isn't a majority
	equal := false
	again("b")
	changed := s.RunUntil(changeTime()+4*sceneTTL, func() bool {
		e := s.dynamic.Electorate()
		if e.Joint() {
			equal = len(e.Old) == 3 && slices.Equal(e.Old, e.Voters)
		}
		return e.Most == 5 && !e.Joint()
	})
	if e := s.dynamic.Electorate(); s.failed == nil && (!changed || !equal || !s.dynamic.Voting("a", "b", "c")) {
		t.Fatalf("it is %+v; a joint electorate with equal halves was seen: %v", e, equal)
	}
	s.unchanged(6 * sceneTTL) // c still has MaxVoters 3, which changes nothing
	s.is(y, Granted)
	s.Release(y)
	s.serves("y")
}

// TestDynamicAChangeOfTheLimitOutlivesItsVoters has a voter die at the joint electorate with equal
// halves, and come back: another voter completes the change to the new limit.
func TestDynamicAChangeOfTheLimitOutlivesItsVoters(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"a", "b", "c"} {
		most := make(map[string]int)
		s := mesh(t, 3, []string{"y"}, Dynamic{MaxVoters: 3, Most: most})
		s.Run(2 * sceneTTL)
		for _, name := range []string{"a", "b"} {
			s.PowerOff(name)
			most[name] = 5
			s.Start(name)
			if name == "a" {
				s.Run(3 * sceneTTL)
			}
		}
		if !s.RunUntil(8*sceneTTL, s.joint) && s.failed == nil {
			t.Fatalf("it is %+v", s.dynamic.Electorate())
		}
		s.PowerOff(victim)
		s.Run(sceneTTL)
		s.Start(victim)
		ended := func() bool { return s.dynamic.Electorate().Most == 5 && s.dynamic.Voting("a", "b", "c") }
		if !s.RunUntil(changeTime()+6*sceneTTL, ended) && s.failed == nil {
			t.Fatalf("%s died; it is %+v", victim, s.dynamic.Electorate())
		}
		s.serves("y")
	}
}
