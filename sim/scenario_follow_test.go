package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Scenarios of an electorate that follows the living. The rows are those of the list in docs/simulation.md.

// mesh makes a world of founders a, b, c…, and of others that bear the names given; what is absent comes later. It waits until the electorate is founded.
func mesh(t *testing.T, founders int, others []string, f Following, absent ...string) *scene {
	t.Helper()
	s := uncalled(t, founders, others, f, absent...)
	s.founded()
	if s.failed != nil {
		s.verdict()
		t.FailNow()
	}
	return s
}

func uncalled(t *testing.T, founders int, others []string, f Following, absent ...string) *scene {
	t.Helper()
	var names []string
	for i := range founders {
		names = append(names, string(rune('a'+i)))
	}
	f.Absent = absent
	return stage(t, Options{Voters: founders, Clients: len(others), Names: append(names, others...), Following: &f})
}

// voting lets time pass until exactly these nodes vote, d at most, and returns how long that took.
func (s *scene) voting(d time.Duration, names ...string) time.Duration {
	s.t.Helper()
	start := s.Now()
	if !s.RunUntil(d, func() bool { return s.dynamic.Voting(names...) }) && s.failed == nil {
		s.t.Fatalf("at %v it is electorate %+v; %v must vote", s.Now(), s.dynamic.Electorate(), names)
	}
	return s.Now() - start
}

// goesBy demands that all these nodes go by the newest electorate.
func (s *scene) goesBy(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if s.failed == nil && s.dynamic.Knows(name) != s.dynamic.Electorate().Version {
			s.t.Fatalf("%s goes by electorate %d of %d", name, s.dynamic.Knows(name), s.dynamic.Electorate().Version)
		}
	}
}

// unchanged lets time pass in which the electorate must stay as it is.
func (s *scene) unchanged(d time.Duration) {
	s.t.Helper()
	version := s.dynamic.Electorate().Version
	if s.RunUntil(d, func() bool { return s.dynamic.Electorate().Version != version }) && s.failed == nil {
		s.t.Fatalf("at %v there is electorate %+v; nothing was to change", s.Now(), s.dynamic.Electorate())
	}
}

// serves demands that a node is granted a key soon, and gives it back.
func (s *scene) serves(node string) {
	s.t.Helper()
	r := s.Lock(node, "served")
	s.becomes(r, Granted, sceneTTL)
	s.Release(r)
	s.Run(100 * time.Millisecond)
}

// serveNot demands that none of some nodes is granted anything for a while.
func (s *scene) serveNot(d time.Duration, nodes ...string) {
	s.t.Helper()
	var all []*Request
	for _, n := range nodes {
		all = append(all, s.Lock(n, "unserved"))
	}
	if s.RunUntil(d, func() bool { return held(all) != nil }) && s.failed == nil {
		s.t.Fatalf("at %v %s is served", s.Now(), held(all).Node)
	}
	for _, r := range all {
		s.Release(r)
	}
}

// joint reports whether the newest electorate is.
func (w *World) joint() bool {
	e := w.dynamic.Electorate()
	return e.Joint()
}

// Times of changes. Each is what is needed where nothing goes wrong.
const (
	// gossipNotices is how long the simulator's gossip takes at most to find that a node is gone: unseenTTLs, and one look.
	gossipNotices = unseenTTLs*sceneTTL + 3*sceneTTL/gossipsPerTTL/2
	// polls is what four questions of how all stand may cost: one that finds a node settled, one that finds all at the joint
	// version, the one after the drain, and one that was just missed.
	polls = 4 * sceneTTL / 10
	// electing is for the two elections: four round trips and as many saves each.
	electing = 100 * time.Millisecond
)

// changeTime is how long a change takes at most, from when it is wanted until the final electorate is decided: what nobody can
// hurry is the drain.
func changeTime() time.Duration { return electorate.Drain(sceneTTL) + polls + electing }

// settles is how long a node must have been there until it is voted in, as gossip tells it. A new one's dials and a few of its first reports come on top.
func settles() time.Duration {
	return electorate.SettleAfter(sceneTTL) + 3*sceneTTL/gossipsPerTTL/2
}

// replaceTime is how long it takes at most from a voter's silent death until a standby votes in its place.
func replaceTime() time.Duration {
	return gossipNotices + electorate.FailAfter(sceneTTL) + changeTime()
}

// TestFollowGrowsAndShrinks : three become five; two of them die for good, and the three that are left survive the next death.
func TestFollowGrowsAndShrinks(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e"}, Following{}, "d", "e")
	held := s.holds("a", "k")
	s.Start("d")
	s.Run(3 * sceneTTL)
	if !s.dynamic.Voting("a", "b", "c") {
		t.Fatalf("four vote, which is no better than three: %+v", s.dynamic.Electorate())
	}
	s.Start("e")
	s.between("to grow", s.voting(20*sceneTTL, "a", "b", "c", "d", "e"), electorate.Drain(sceneTTL), settles()+changeTime())
	s.Run(100 * time.Millisecond)
	s.goesBy("a", "b", "c", "d", "e")
	s.dynamic.Lose("d")
	s.dynamic.Lose("e")
	s.serves("b") // three of five
	s.between("to shrink", s.voting(20*sceneTTL, "a", "b", "c"), electorate.FailAfter(sceneTTL), replaceTime())
	s.is(held, Granted)
	s.dynamic.Lose("c")
	s.serves("b")
	s.unchanged(20 * sceneTTL) // its seat costs nothing: of two voters both are needed as well
	s.serves("a")
	s.is(held, Granted)
	s.dynamic.Lose("b")
	s.unchanged(20 * sceneTTL) // one doesn't go on alone
	s.is(held, Lost)
	s.serveNot(3*sceneTTL, "a")
}

// TestFollowALeaverIsVotedOut : a voter that leaves is replaced at once, also when it would be the one to propose that; nobody waits for FailAfter.
func TestFollowALeaverIsVotedOut(t *testing.T) {
	for _, leaver := range []string{"a", "b", "c"} {
		t.Run(leaver, func(t *testing.T) {
			s := mesh(t, 3, []string{"d"}, Following{})
			s.Run(2 * sceneTTL)
			r := s.holds("d", "k")
			s.dynamic.Leave(leaver)
			left := slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(n string) bool { return n == leaver })
			s.between("to leave", s.voting(20*sceneTTL, left...), electorate.Drain(sceneTTL), changeTime())
			s.is(r, Granted)
			s.Run(100 * time.Millisecond)
			s.goesBy(left...)
			s.Crash(leaver)
			s.serves("d")
			s.unchanged(3 * sceneTTL)
			s.Start(leaver) // it stands by from now on
			s.unchanged(5 * sceneTTL)
		})
	}
	t.Run("without anybody in its place", func(t *testing.T) {
		s := mesh(t, 3, nil, Following{})
		s.dynamic.Leave("c")
		s.voting(20*sceneTTL, "a", "b")
		s.serves("a")
	})
}

// TestFollowALostVoterIsReplaced : a standby votes in its place within replaceTime, which is what operators plan with: what gossip needs to notice,
// FailAfter (three maximum TTLs), the drain (one, and the drift), and some polls. That is a little under six maximum TTLs in all.
func TestFollowALostVoterIsReplaced(t *testing.T) {
	for _, lost := range []string{"a", "b", "c"} {
		t.Run(lost, func(t *testing.T) {
			s := mesh(t, 3, []string{"d"}, Following{})
			s.Run(2 * sceneTTL)
			r := s.holds("d", "k")
			s.dynamic.Lose(lost)
			left := slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(n string) bool { return n == lost })
			s.between("to replace it", s.voting(20*sceneTTL, left...), electorate.FailAfter(sceneTTL)+electorate.Drain(sceneTTL), replaceTime())
			s.is(r, Granted)
			s.Run(100 * time.Millisecond)
			s.goesBy(left...)
			s.Crash(left[2]) // what is left survives the next death
			s.serves(left[0])
		})
	}
	if most := replaceTime(); most > 6*sceneTTL {
		t.Errorf("it takes %v, more than is said", most)
	}
}

// TestFollowARestartIsNoLoss : a voter that is back within FailAfter stays one, and needs nobody's decision.
func TestFollowARestartIsNoLoss(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Following{})
	s.Run(2 * sceneTTL)
	r := s.holds("d", "k")
	for _, v := range []string{"a", "b", "c"} {
		s.PowerOff(v)
		s.unchanged(electorate.FailAfter(sceneTTL) - 10*time.Millisecond)
		s.Start(v)
		s.unchanged(sceneTTL + learning)
	}
	s.is(r, Granted)
	if !s.dynamic.Voting("a", "b", "c") {
		t.Fatalf("it is electorate %+v", s.dynamic.Electorate())
	}
}

// TestFollowSizes : how many vote where so many found it, so many more come, and it may grow so far.
func TestFollowSizes(t *testing.T) {
	sampled.Computes(t)
	for _, row := range []struct{ founders, others, most, want int }{
		{1, 0, 7, 1}, {1, 1, 7, 1}, {1, 2, 7, 3}, {1, 4, 3, 3}, {1, 4, 1, 1},
		{2, 0, 7, 2}, {2, 1, 7, 3}, {2, 2, 7, 3}, {2, 3, 7, 5},
		{3, 1, 7, 3}, {3, 2, 7, 5}, {3, 6, 5, 5}, {3, 6, 0, 7}, {3, 2, 3, 3}, {3, 8, 9, 11 - 2},
		{4, 0, 7, 3}, {4, 1, 7, 5}, {5, 2, 5, 5},
	} {
		t.Run(fmt.Sprintf("%d and %d, at most %d", row.founders, row.others, row.most), func(t *testing.T) {
			var others []string
			for i := range row.others {
				others = append(others, fmt.Sprintf("x%d", i))
			}
			t.Parallel()
			s := mesh(t, row.founders, others, Following{MaxVoters: row.most})
			s.Run(12 * sceneTTL)
			if e := s.dynamic.Electorate(); len(e.Voters) != row.want || e.Joint() {
				t.Errorf("%+v; %d are to vote", e, row.want)
			}
			s.unchanged(6 * sceneTTL)
			s.serves("a")
		})
	}
}

// TestFollowTwoVoters : with one of two away nobody decides anything, and when it is back all goes on.
func TestFollowTwoVoters(t *testing.T) {
	s := mesh(t, 2, nil, Following{})
	s.PowerOff("b")
	s.Run(sceneTTL)
	s.serveNot(10*sceneTTL, "a")
	s.Start("b")
	s.Run(2 * sceneTTL)
	s.serves("a")
	if !s.dynamic.Voting("a", "b") {
		t.Fatalf("it is electorate %+v", s.dynamic.Electorate())
	}
}

// taker takes a lock every ten milliseconds, and notes what it was denied.
type taker struct {
	s      *scene
	node   string
	r      *Request
	pause  time.Duration // the longest from a request to its grant
	when   time.Duration
	failed int
	taken  int
	over   bool
}

func (s *scene) takes(node string) *taker {
	x := &taker{s: s, node: node}
	x.take()
	return x
}

func (x *taker) take() {
	if x.over || x.s.failed != nil {
		return
	}
	w := x.s.World
	if r := x.r; r != nil {
		switch r.State {
		case Granted:
			x.taken++
			if p := r.Had - r.Asked; p > x.pause {
				x.pause, x.when = p, r.Asked
			}
			if w.Script.Held(r) {
				w.Script.Release(r)
			} else {
				x.failed++
			}
			r = nil
		case Waiting:
			if p := w.Now() - r.Asked; p > x.pause {
				x.pause, x.when = p, r.Asked
			}
		case Lost, Failed:
			x.failed++
			r = nil
		default:
			r = nil
		}
		x.r = r
	}
	if x.r == nil {
		x.r = w.Script.Lock(x.node, "taken")
	}
	w.At(10*time.Millisecond, x.take)
}

// ends demands that it was never denied anything for long.
func (x *taker) ends(most time.Duration) {
	x.s.t.Helper()
	x.over = true
	if x.r != nil && x.s.failed == nil {
		x.s.Release(x.r)
	}
	if x.s.failed == nil && (x.failed > 0 || x.pause > most || x.taken == 0) {
		x.s.t.Errorf("%s took a lock %d times, failed %d times, and waited for up to %v, from %v on; at most %v are allowed", x.node, x.taken, x.failed, x.pause, x.when, most)
	}
	x.s.t.Logf("%s took a lock %d times, and waited for up to %v", x.node, x.taken, x.pause)
}

// TestFollowLocksGoOnThroughTwentyChanges : a lock taken every ten milliseconds sees no failure and no pause over one second, and a lease that is held
// all the time lives on, while voters leave, die, and come back, with healthy links.
func TestFollowLocksGoOnThroughTwentyChanges(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	s := mesh(t, 3, []string{"d", "e", "f", "x", "y"}, Following{MaxVoters: 5}, "d", "e", "f")
	held, x := s.holds("x", "k"), s.takes("y")
	changes := func() uint64 { return s.dynamic.Electorate().Version / 2 } // each has a joint version
	change := func(what string, f func()) {
		t.Helper()
		before := changes()
		f()
		if !s.RunUntil(20*sceneTTL, func() bool { return changes() > before && !s.joint() }) && s.failed == nil {
			t.Fatalf("at %v nothing has changed (%s): %+v", s.Now(), what, s.dynamic.Electorate())
		}
		s.is(held, Granted)
	}
	s.voting(20*sceneTTL, "a", "b", "c", "x", "y") // the holder is voted in
	for _, n := range []string{"d", "e", "f"} {
		s.Start(n)
	}
	s.Run(2 * sceneTTL)
	twenty := uint64(sampled.Count(7, 20))
	for i := 0; changes() < twenty && s.failed == nil; i++ {
		voters := slices.DeleteFunc(slices.Clone(s.dynamic.Electorate().Voters), func(v vote.Elector) bool { return v.Name == "x" || v.Name == "y" })
		v := string(voters[i%len(voters)].Name)
		switch i % 4 {
		case 0, 1:
			change(v+" leaves", func() { s.dynamic.Leave(v) })
			s.Restart(v)
		case 2: // it dies, and its directory is lost with it
			change(v+" comes back with an empty directory", func() {
				s.Crash(v)
				s.dynamic.Wipe(v)
				s.Start(v)
			})
		default:
			change(v+" dies with its machine", func() { s.PowerOff(v) })
			s.Start(v)
		}
		s.Run(2 * sceneTTL)
	}
	s.is(held, Granted)
	if !s.Held(held) {
		t.Error("the lease has ended")
	}
	x.ends(time.Second)
}

// TestFollowAHolderOutlivesEachChange : a lease goes on when the mesh grows, when its holder is voted in, and when all who granted it are replaced.
func TestFollowAHolderOutlivesEachChange(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e", "f", "g"}, Following{MaxVoters: 3}, "e", "f", "g")
	r := s.holds("d", "k")
	other := s.Lock("a", "k")
	for _, row := range []struct{ out, in string }{{"a", "d"}, {"b", "e"}, {"c", "f"}, {"d", "g"}} {
		if row.in != "d" {
			s.Start(row.in)
			s.Run(2 * sceneTTL)
		}
		before := s.dynamic.Electorate()
		s.dynamic.Leave(row.out)
		if !s.RunUntil(20*sceneTTL, func() bool { return s.dynamic.Electorate().Version == before.Version+2 }) && s.failed == nil {
			t.Fatalf("%s doesn't leave: %+v", row.out, s.dynamic.Electorate())
		}
		if row.out == "a" {
			s.is(other, Waiting)
			s.Release(other)
		}
		s.Run(time.Second)
		if row.out != "d" {
			s.dynamic.Lose(row.out)
		}
		s.stays(r, Granted, 3*sceneTTL)
	}
	s.voting(0, "e", "f", "g")
	contender := s.Lock("e", "k")
	s.stays(contender, Waiting, 3*sceneTTL)
	s.Release(r)
	s.becomes(contender, Granted, time.Second)
	s.rises(r, contender)
}

// TestFollowTokensRiseAcrossElectoratesWithoutAVoterInCommon : clocks of the first voters stand an hour ahead of all others; when none of them is left, tokens go on from theirs.
func TestFollowTokensRiseAcrossElectoratesWithoutAVoterInCommon(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	walls := []time.Duration{time.Hour, time.Hour, time.Hour, 0, 0, 0}
	s := stage(t, Options{
		Voters: 3, Clients: 3, Names: names, Clocks: Clocks{PPM: make([]int64, 6), Wall: walls}, Following: &Following{MaxVoters: 3},
	})
	s.founded()
	last := s.holds("a", "k")
	s.Release(last)
	for i, out := range []string{"a", "b", "c"} {
		s.Run(2 * sceneTTL)
		s.dynamic.Leave(out)
		left := slices.Sorted(slices.Values(append(slices.Clone(names[i+1:3]), names[3:4+i]...)))
		s.voting(20*sceneTTL, left...)
		s.dynamic.Lose(out)
	}
	r := s.holds("d", "k")
	s.rises(last, r)
	if s.dynamic.Electorate().Floor < last.Token {
		t.Errorf("the floor is %d, below the token %d", s.dynamic.Electorate().Floor, last.Token)
	}
}

// alarmed reports whether a node has said something to its operator.
func (s *scene) alarmed(part string) bool {
	return slices.ContainsFunc(strings.Split(s.trace.String(), "\n"), func(line string) bool { return strings.Contains(line, " alarm: ") && strings.Contains(line, part) })
}

// TestFollowAStandbyThatLostItsPowerComesBack : nobody says that the connections to it are dead, and no voter speaks with it but about electorates.
func TestFollowAStandbyThatLostItsPowerComesBack(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Following{MaxVoters: 3})
	s.Run(3 * sceneTTL)
	s.PowerOff("d")
	s.Start("d")
	s.Run(4 * sceneTTL)
	s.dynamic.Leave("c")
	s.voting(10*sceneTTL, "a", "b", "d")
}
