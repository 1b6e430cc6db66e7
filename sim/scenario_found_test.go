package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// Rows 41, 42 and 65 of the list of faults: an electorate is bootstrapped once.

// foundedOnce demands that all named nodes apply electorates of the same bootstrap.
func (s *scene) foundedOnce(nodes ...string) {
	s.t.Helper()
	for _, n := range nodes {
		if p := s.host(n).p; s.failed == nil && (p == nil || p.m.Known().Version == 0 || p.m.Known().Lineage != s.dynamic.Electorate().Lineage) {
			s.t.Fatalf("at %v %s applies %+v", s.Now(), n, p.m.Known())
		}
	}
}

// TestFault42FirstStartInTwoHalves shows that neither side bootstraps while a founder is missing,
// and the founders bootstrap once when all see each other.
func TestFault42FirstStartInTwoHalves(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ one, other []string }{
		{[]string{"a"}, []string{"b", "c", "d", "e"}},
		{[]string{"a", "b"}, []string{"c", "d", "e"}},
		{[]string{"a", "b", "c", "d"}, []string{"e"}},
	} {
		t.Run(fmt.Sprint(row.one, row.other), func(t *testing.T) {
			all := append(append([]string{}, row.one...), row.other...)
			s := uncalled(t, 5, []string{"x"}, Dynamic{MaxVoters: 5}, all...)
			s.Split(row.one, row.other)
			for _, n := range all {
				s.Start(n)
			}
			s.serveNot(10*sceneTTL, "a", "e", "x")
			if s.dynamic.Electorate().Version != 0 {
				t.Fatalf("without all founders there is %+v", s.dynamic.Electorate())
			}
			s.Join(row.one, row.other)
			s.voting(3*sceneTTL, "a", "b", "c", "d", "e")
			s.Run(sceneTTL)
			s.foundedOnce("a", "b", "c", "d", "e", "x")
			s.serves("a")
			s.serves("x")
			if s.dynamic.Electorate().Version != 1 {
				t.Errorf("it is electorate %+v", s.dynamic.Electorate())
			}
		})
	}
}

// TestFault42AFounderComesLate shows that the other founders wait for a late founder, however long.
func TestFault42AFounderComesLate(t *testing.T) {
	s := uncalled(t, 3, []string{"d", "e"}, Dynamic{}, "c")
	s.serveNot(50*sceneTTL, "a", "b", "d")
	if s.dynamic.Electorate().Version != 0 {
		t.Fatalf("without c there is %+v", s.dynamic.Electorate())
	}
	s.Start("c")
	s.voting(sceneTTL, "a", "b", "c")
	s.serves("d")
}

// TestFault42FoundersDieAsTheyFound has each founder in turn crash at many moments of the
// bootstrap, in the middle of saves, and come back.
func TestFault42FoundersDieAsTheyFound(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, victim := range []string{"a", "b", "c"} {
		for at := 0; at < 200; at += 5 {
			s := uncalled(t, 3, nil, Dynamic{}, "a", "b", "c")
			for _, n := range []string{"a", "b", "c"} {
				s.Start(n)
			}
			s.Run(time.Duration(at) * time.Millisecond)
			s.crash(s.host(victim), endingMixed, s.host(victim).rng)
			s.Run(sceneTTL)
			s.Start(victim)
			s.voting(5*sceneTTL, "a", "b", "c")
			s.Run(2 * sceneTTL)
			s.foundedOnce("a", "b", "c")
		}
	}
}

// TestFault42AFounderAloneDiesAsItFounds crashes a single founder that applies its electorate and
// hasn't stored the electorate. The stored pledge is enough to go on, as long as the node is
// configured to bootstrap.
func TestFault42AFounderAloneDiesAsItFounds(t *testing.T) {
	s := uncalled(t, 1, nil, Dynamic{}, "a")
	s.Start("a")
	if !s.RunUntil(5*sceneTTL, func() bool { return s.dynamic.Electorate().Version == 1 }) {
		t.Fatal("nothing is founded")
	}
	h := s.host("a")
	h.disk.saving = nil // so that the save isn't stored by chance
	s.PowerOff("a")
	if d := h.disk.state; d.Electorate.Version != 0 || len(d.Pledge) != 1 {
		t.Fatalf("on its disk there is %+v", d)
	}
	s.Start("a")
	s.RunUntil(5*sceneTTL, func() bool { return s.Ready("a") })
	s.foundedOnce("a")
}

// TestFault65AWipedFounderIsVotedIn has a founder come back with an empty directory, configured to
// bootstrap as before, while the others carry on. The founder waits and is voted in.
func TestFault65AWipedFounderIsVotedIn(t *testing.T) {
	for _, victim := range []string{"a", "b", "c"} {
		s := mesh(t, 3, []string{"d"}, Dynamic{MaxVoters: 3})
		s.Run(2 * sceneTTL)
		r := s.holds("d", "k")
		before := s.dynamic.Electorate()
		s.PowerOff(victim)
		s.dynamic.Wipe(victim)
		s.Start(victim)
		if s.RunUntil(20*sceneTTL, func() bool { return s.dynamic.Electorate().Version == 3 }); s.dynamic.Electorate().Version != 3 {
			t.Fatalf("%s is still trusted: %+v", victim, s.dynamic.Electorate())
		}
		for _, v := range before.Voters { // the voter with the lost directory is gone
			if e := s.dynamic.Electorate(); string(v.Name) == victim && e.Has(v) {
				t.Errorf("%s votes, though it has forgotten what it promised", victim)
			}
		}
		s.is(r, Granted)
		s.Run(sceneTTL)
		s.foundedOnce("a", "b", "c", "d")
		s.serves(victim)
	}
}

// TestFault65AWipedFounderIsNoVoter shows that with one of three founders dead and another wiped
// there is no majority: no node is served until the dead founder is back.
func TestFault65AWipedFounderIsNoVoter(t *testing.T) {
	s := mesh(t, 3, nil, Dynamic{})
	s.PowerOff("c")
	s.PowerOff("b")
	s.dynamic.Wipe("b")
	s.Start("b")
	s.serveNot(20*sceneTTL, "a", "b")
	s.unchanged(0)
	s.Start("c")
	s.voting(10*sceneTTL, "a", "b", "c") // b with its new directory
	s.serves("b")
}

// TestFault65AllFoundersAreWipedOneAfterTheOther wipes each founder in turn: no founder bootstraps
// anew, and a lease goes on.
func TestFault65AllFoundersAreWipedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := mesh(t, 3, []string{"d", "e"}, Dynamic{})
	s.voting(10*sceneTTL, "a", "b", "c", "d", "e")
	r, lineage := s.holds("d", "k"), s.dynamic.Electorate().Lineage
	for _, v := range []string{"a", "b", "c"} {
		s.Crash(v)
		s.dynamic.Wipe(v)
		s.Start(v)
		s.voting(20*sceneTTL, "a", "b", "c", "d", "e")
		s.Run(sceneTTL)
		s.is(r, Granted)
	}
	s.foundedOnce("a", "b", "c", "d", "e")
	if s.dynamic.Electorate().Lineage != lineage {
		t.Error("it was founded again")
	}
	s.serves("a")
}

// TestFault65AllFoundersComeBackEmptyAtOnce wipes all three founders at once. The mesh has grown to
// seven voters, so the other four are a majority.
func TestFault65AllFoundersComeBackEmptyAtOnce(t *testing.T) {
	t.Parallel()
	s := mesh(t, 3, []string{"d", "e", "f", "g"}, Dynamic{})
	s.voting(20*sceneTTL, "a", "b", "c", "d", "e", "f", "g")
	r, lineage := s.holds("d", "k"), s.dynamic.Electorate().Lineage
	for _, v := range []string{"a", "b", "c"} {
		s.PowerOff(v)
		s.dynamic.Wipe(v)
	}
	for _, v := range []string{"a", "b", "c"} {
		s.Start(v)
	}
	s.voting(40*sceneTTL, "a", "b", "c", "d", "e", "f", "g")
	s.Run(sceneTTL)
	s.foundedOnce("a", "b", "c", "d", "e", "f", "g")
	s.is(r, Granted)
	if s.dynamic.Electorate().Lineage != lineage {
		t.Error("it was founded again")
	}
	s.serves("a")
}

// TestFault41FoundersWithoutMemoryInAMinority partitions a mesh that has grown, and restarts
// founders on the smaller side without memory. The wiped founders don't bootstrap as long as
// another founder is missing, or remembers.
func TestFault41FoundersWithoutMemoryInAMinority(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	for _, row := range []struct {
		name     string
		minority []string
		wiped    []string
	}{
		{"one founder is on the other side", []string{"a", "b", "d"}, []string{"a", "b"}},
		{"one founder remembers", []string{"a", "b", "c"}, []string{"a", "b"}},
		{"one founder remembers, and all restart", []string{"a", "b", "c"}, []string{"b", "c"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := mesh(t, 3, []string{"d", "e", "f", "g"}, Dynamic{})
			s.voting(20*sceneTTL, "a", "b", "c", "d", "e", "f", "g")
			s.Run(2 * sceneTTL)
			r := s.holds("g", "k")
			majority := fault.Without([]string{"a", "b", "c", "d", "e", "f", "g"}, row.minority)
			s.Split(row.minority, majority)
			for _, v := range row.minority {
				s.PowerOff(v)
			}
			for _, v := range row.wiped {
				s.dynamic.Wipe(v)
			}
			for _, v := range row.minority {
				s.Start(v)
			}
			s.serveNot(20*sceneTTL, row.minority...)
			s.is(r, Granted)
			s.serves(majority[0])
			s.Join(row.minority, majority)
			s.Run(15 * sceneTTL)
			s.foundedOnce("a", "b", "c", "d", "e", "f", "g")
			s.is(r, Granted)
			s.serves("a")
		})
	}
}

// TestFault41AllFoundersWithoutMemoryAreAnotherMesh shows the limit of this protection: all
// founders have lost their directories, reach no other node, and are configured to bootstrap. Such
// a mesh can't be told from a new mesh, so two meshes result. The conflict is noticed as soon as
// the meshes meet, and operators must be warned.
func TestFault41AllFoundersWithoutMemoryAreAnotherMesh(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e", "f", "g"}, Dynamic{})
	s.judge.deaf = map[string]bool{checkElectorate: true, checkAlarm: true, checkBaseline: true}
	s.voting(20*sceneTTL, "a", "b", "c", "d", "e", "f", "g")
	s.Run(2 * sceneTTL)
	founders, others := []string{"a", "b", "c"}, []string{"d", "e", "f", "g"}
	s.Split(founders, others)
	for _, v := range founders {
		s.PowerOff(v)
		s.dynamic.Wipe(v)
	}
	for _, v := range founders {
		s.Start(v)
	}
	s.RunUntil(10*sceneTTL, func() bool { return s.dynamic.Knows("a") == 1 })
	if s.dynamic.Knows("a") != 1 || s.host("a").p.m.Known().Lineage == s.dynamic.Electorate().Lineage {
		t.Fatal("the founders found nothing: then the text of docs/simulation.md is too careful")
	}
	s.Join(founders, others)
	if !s.RunUntil(3*sceneTTL, func() bool {
		return s.alarmed("there are two conflicting electorates: the mesh was bootstrapped twice")
	}) {
		t.Error("nobody notices that there are two")
	}
	s.forsake()
}

// forsake ends a scenario with a world that isn't to heal.
func (s *scene) forsake() {
	if err := s.Err(); err != nil {
		s.t.Error(err)
	}
	s.World = New(Options{Seed: 1, Voters: 1, MaxTTL: sceneTTL})
}

// TestADiskIsSparedOnlyIfTheOthersCanLearnOfTheElectorate has only a store that b was voted in for
// x, which is gone for good. If a's disk is lost too, e is the only earlier voter that could inform
// the others.
func TestADiskIsSparedOnlyIfTheOthersCanLearnOfTheElectorate(t *testing.T) {
	elector := func(name string) vote.Elector { return vote.Elector{Name: vote.NodeID(name), Dir: vote.Dir(name[0])} }
	a, b, e, x := elector("a"), elector("b"), elector("e"), elector("x")
	joint := vote.Electorate{Version: 2, Voters: []vote.Elector{a, b, e}, Old: []vote.Elector{a, e, x}}
	final := vote.Electorate{Version: 3, Voters: joint.Voters}
	w := &World{}
	w.dynamic.w = w
	w.dynamic.newest, w.dynamic.decided = 3, map[uint64]vote.Electorate{2: joint, 3: final}
	for _, v := range []vote.Elector{a, b, e, x} {
		h := &host{name: v.Name, retired: v == x}
		h.disk.exists, h.disk.state = true, vote.DiskState{Dir: v.Dir, Electorate: joint}
		w.hosts = append(w.hosts, h)
	}
	w.hosts[0].disk.state.Electorate = final
	if w.dynamic.canLoseDisk(w.hosts[0]) {
		t.Error("the only disk that has the electorate is spared")
	}
	if !w.dynamic.canLoseDisk(w.hosts[1]) {
		t.Error("a has the electorate, and e has, and b isn't needed")
	}
	w.hosts[2].disk.state.Electorate = final
	if !w.dynamic.canLoseDisk(w.hosts[0]) {
		t.Error("e has the electorate and can tell b, and a isn't spared")
	}
}
