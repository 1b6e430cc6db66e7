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

// Scenarios of dynamic membership. The rows are those of the list in docs/simulation.md.

// mesh makes a world of founders a, b, c…, and of other nodes with the given names, and waits until
// the electorate is bootstrapped. Absent nodes start later.
func mesh(t *testing.T, founders int, others []string, f Dynamic, absent ...string) *scene {
	t.Helper()
	s := uncalled(t, founders, others, f, absent...)
	s.founded()
	if s.failed != nil {
		s.verdict()
		t.FailNow()
	}
	return s
}

func uncalled(t *testing.T, founders int, others []string, f Dynamic, absent ...string) *scene {
	t.Helper()
	var names []string
	for i := range founders {
		names = append(names, string(rune('a'+i)))
	}
	f.Absent = absent
	return stage(t, Options{Voters: founders, Clients: len(others), Names: append(names, others...), Dynamic: &f})
}

// voting lets at most d pass until exactly the named nodes vote, and returns the time taken.
func (s *scene) voting(d time.Duration, names ...string) time.Duration {
	s.t.Helper()
	start := s.Now()
	if !s.RunUntil(d, func() bool { return s.dynamic.Voting(names...) }) && s.failed == nil {
		s.t.Fatalf("at %v it is electorate %+v; %v must vote", s.Now(), s.dynamic.Electorate(), names)
	}
	return s.Now() - start
}

// applies demands that all named nodes apply the newest electorate.
func (s *scene) applies(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if s.failed == nil && s.dynamic.Knows(name) != s.dynamic.Electorate().Version {
			s.t.Fatalf("%s applies electorate %d of %d", name, s.dynamic.Knows(name), s.dynamic.Electorate().Version)
		}
	}
}

// unchanged lets d pass, during which the electorate must stay the same.
func (s *scene) unchanged(d time.Duration) {
	s.t.Helper()
	version := s.dynamic.Electorate().Version
	if s.RunUntil(d, func() bool { return s.dynamic.Electorate().Version != version }) && s.failed == nil {
		s.t.Fatalf("at %v there is electorate %+v; nothing was to change", s.Now(), s.dynamic.Electorate())
	}
}

// serves demands that a node is granted a key soon, and releases the key.
func (s *scene) serves(node string) {
	s.t.Helper()
	r := s.Lock(node, "served")
	s.becomes(r, Granted, sceneTTL)
	s.Release(r)
	s.Run(100 * time.Millisecond)
}

// serveNot demands that no named node is granted a lease for a while.
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

// joint reports whether the newest electorate is joint.
func (w *World) joint() bool {
	e := w.dynamic.Electorate()
	return e.Joint()
}

// The times for changes in a mesh without faults.
const (
	// gossipNotices is the longest time until the simulator's gossip finds a node gone: unseenTTLs,
	// and one update of the gossip view.
	gossipNotices = unseenTTLs*sceneTTL + 3*sceneTTL/gossipsPerTTL/2
	// polls is the longest time for four polls: to find a node settled, to find all nodes at the
	// joint version, to ask after the drain, and for a poll just missed.
	polls = 4 * sceneTTL / 10
	// electing is the time for the two elections: four round trips and as many saves each.
	electing = 100 * time.Millisecond
)

// changeTime is the longest time of a change, from the moment when the change is wanted until the
// final electorate is decided. No node can hurry the drain.
func changeTime() time.Duration { return electorate.Drain(sceneTTL) + polls + electing }

// settles is how long a node must have been present before the node is voted in, as seen by gossip.
// For a new node, dials and a few of the first reports come on top.
func settles() time.Duration {
	return electorate.SettleAfter(sceneTTL) + 3*sceneTTL/gossipsPerTTL/2
}

// replaceTime is the longest time from a voter's silent death until a standby votes in its place.
func replaceTime() time.Duration {
	return gossipNotices + electorate.FailAfter(sceneTTL) + changeTime()
}

// TestDynamicGrowsAndShrinks grows an electorate from three voters to five. Two of the five die for
// good, and the remaining three survive the next death.
func TestDynamicGrowsAndShrinks(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e"}, Dynamic{}, "d", "e")
	held := s.holds("a", "k")
	s.Start("d")
	s.Run(3 * sceneTTL)
	if !s.dynamic.Voting("a", "b", "c") {
		t.Fatalf("four vote, which is no better than three: %+v", s.dynamic.Electorate())
	}
	s.Start("e")
	s.between("to grow", s.voting(20*sceneTTL, "a", "b", "c", "d", "e"), electorate.Drain(sceneTTL), settles()+changeTime())
	s.Run(100 * time.Millisecond)
	s.applies("a", "b", "c", "d", "e")
	s.dynamic.Lose("d")
	s.dynamic.Lose("e")
	s.serves("b") // by three of five
	s.between("to shrink", s.voting(20*sceneTTL, "a", "b", "c"), electorate.FailAfter(sceneTTL), replaceTime())
	s.is(held, Granted)
	s.dynamic.Lose("c")
	s.serves("b")
	s.unchanged(20 * sceneTTL) // c's seat costs nothing: with two voters, both are needed as well
	s.serves("a")
	s.is(held, Granted)
	s.dynamic.Lose("b")
	s.unchanged(20 * sceneTTL) // a single voter doesn't go on alone
	s.is(held, Lost)
	s.serveNot(3*sceneTTL, "a")
}

// TestDynamicALeaverIsVotedOut shows that a leaving voter is replaced at once, without FailAfter,
// also if the leaver itself would propose the change.
func TestDynamicALeaverIsVotedOut(t *testing.T) {
	for _, leaver := range []string{"a", "b", "c"} {
		t.Run(leaver, func(t *testing.T) {
			s := mesh(t, 3, []string{"d"}, Dynamic{})
			s.Run(2 * sceneTTL)
			r := s.holds("d", "k")
			s.dynamic.Leave(leaver)
			left := slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(n string) bool { return n == leaver })
			s.between("to leave", s.voting(20*sceneTTL, left...), electorate.Drain(sceneTTL), changeTime())
			s.is(r, Granted)
			s.Run(100 * time.Millisecond)
			s.applies(left...)
			s.Crash(leaver)
			s.serves("d")
			s.unchanged(3 * sceneTTL)
			s.Start(leaver) // a standby from now on
			s.unchanged(5 * sceneTTL)
		})
	}
	t.Run("without anybody in its place", func(t *testing.T) {
		s := mesh(t, 3, nil, Dynamic{})
		s.dynamic.Leave("c")
		s.voting(20*sceneTTL, "a", "b")
		s.serves("a")
	})
}

// TestDynamicALostVoterIsReplaced shows that a standby votes in place of a lost voter within
// replaceTime. Operators plan with this time: the time until gossip notices, FailAfter (three
// maximum TTLs), the drain (one maximum TTL, and the drift), and some polls. The sum is a little
// under six maximum TTLs.
func TestDynamicALostVoterIsReplaced(t *testing.T) {
	for _, lost := range []string{"a", "b", "c"} {
		t.Run(lost, func(t *testing.T) {
			s := mesh(t, 3, []string{"d"}, Dynamic{})
			s.Run(2 * sceneTTL)
			r := s.holds("d", "k")
			s.dynamic.Lose(lost)
			left := slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(n string) bool { return n == lost })
			s.between("to replace it", s.voting(20*sceneTTL, left...), electorate.FailAfter(sceneTTL)+electorate.Drain(sceneTTL), replaceTime())
			s.is(r, Granted)
			s.Run(100 * time.Millisecond)
			s.applies(left...)
			s.Crash(left[2]) // the remaining voters survive the next death
			s.serves(left[0])
		})
	}
	if most := replaceTime(); most > 6*sceneTTL {
		t.Errorf("it takes %v, more than is said", most)
	}
}

// TestDynamicARestartIsNoLoss shows that a voter back within FailAfter stays a voter, without a
// decision.
func TestDynamicARestartIsNoLoss(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Dynamic{})
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

// TestDynamicACrashLoopCostsTheSeat shows that a standby votes in place of a voter whose process
// never runs for long enough to count, and is never out of reach for long: the mesh survives the
// next death. Otherwise it would be without locks until the loop ends.
func TestDynamicACrashLoopCostsTheSeat(t *testing.T) {
	const up, down = sceneTTL / 2, sceneTTL / 4
	s := mesh(t, 3, []string{"d"}, Dynamic{})
	s.Run(2 * sceneTTL)
	r := s.holds("d", "k")
	began := s.Now()
	for !s.dynamic.Voting("b", "c", "d") && s.Now()-began < 20*sceneTTL {
		s.Crash("a")
		s.Run(down)
		s.Start("a")
		s.Run(up)
	}
	least := electorate.CrashLoopAfter(sceneTTL) + electorate.Drain(sceneTTL)
	s.between("to replace it", s.Now()-began, least, least+changeTime()+2*(up+down))
	s.is(r, Granted)
	s.Crash("b")
	s.serves("c")
}

// TestDynamicSizes shows how many nodes vote for a number of founders, a number of further nodes,
// and a limit.
func TestDynamicSizes(t *testing.T) {
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
			s := mesh(t, row.founders, others, Dynamic{MaxVoters: row.most})
			s.Run(12 * sceneTTL)
			if e := s.dynamic.Electorate(); len(e.Voters) != row.want || e.Joint() {
				t.Errorf("%+v; %d are to vote", e, row.want)
			}
			s.unchanged(6 * sceneTTL)
			s.serves("a")
		})
	}
}

// TestDynamicTwoVoters shows that nothing is decided while one of two voters is away, and
// everything goes on when the voter is back.
func TestDynamicTwoVoters(t *testing.T) {
	s := mesh(t, 2, nil, Dynamic{})
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

// taker takes a lock every ten milliseconds, and records failures and waits.
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

// ends demands that no lock failed or was waited for longer than most.
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

// TestDynamicLocksGoOnThroughTwentyChanges takes a lock every ten milliseconds, without a failure
// or a pause over one second, and holds another lease all the time, while voters leave, die, and
// come back over healthy links.
func TestDynamicLocksGoOnThroughTwentyChanges(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	s := mesh(t, 3, []string{"d", "e", "f", "x", "y"}, Dynamic{MaxVoters: 5}, "d", "e", "f")
	held, x := s.holds("x", "k"), s.takes("y")
	// Each change has a joint version.
	changes := func() uint64 { return s.dynamic.Electorate().Version / 2 }
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
		case 2: // the voter dies, and its directory is lost
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

// TestDynamicAHolderOutlivesEachChange shows that a lease goes on when the mesh grows, when its
// holder is voted in, and when all voters behind the lease are replaced.
func TestDynamicAHolderOutlivesEachChange(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e", "f", "g"}, Dynamic{MaxVoters: 3}, "e", "f", "g")
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

// TestDynamicTokensRiseAcrossElectoratesWithoutAVoterInCommon sets the clocks of the first voters
// an hour ahead of all others. When none of the first voters is left, tokens go on from the tokens
// of the first voters.
func TestDynamicTokensRiseAcrossElectoratesWithoutAVoterInCommon(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	walls := []time.Duration{time.Hour, time.Hour, time.Hour, 0, 0, 0}
	s := stage(t, Options{
		Voters: 3, Clients: 3, Names: names, Clocks: Clocks{PPM: make([]int64, 6), Wall: walls}, Dynamic: &Dynamic{MaxVoters: 3},
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
	if s.dynamic.Electorate().MinToken < last.Token {
		t.Errorf("the minimum token is %d, below the token %d", s.dynamic.Electorate().MinToken, last.Token)
	}
}

// alarmed reports whether a node has raised an alarm with the given text.
func (s *scene) alarmed(part string) bool {
	return slices.ContainsFunc(strings.Split(s.trace.String(), "\n"), func(line string) bool { return strings.Contains(line, " alarm: ") && strings.Contains(line, part) })
}

// TestDynamicAStandbyThatLostItsPowerComesBack shows that a standby can be voted in after a loss of
// power. No message reports that its connections are dead, and voters send a standby only messages
// about electorates.
func TestDynamicAStandbyThatLostItsPowerComesBack(t *testing.T) {
	s := mesh(t, 3, []string{"d"}, Dynamic{MaxVoters: 3})
	s.Run(3 * sceneTTL)
	s.PowerOff("d")
	s.Start("d")
	s.Run(4 * sceneTTL)
	s.dynamic.Leave("c")
	s.voting(10*sceneTTL, "a", "b", "d")
}
