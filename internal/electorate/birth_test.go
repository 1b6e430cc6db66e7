package electorate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// countLab returns a lab of processes without directories, each configured with Expect.
func countLab(t *testing.T, expect int) *lab {
	l := newLab(t, "")
	l.cfg.Expect = expect
	return l
}

// fresh starts new processes under these names.
func (l *lab) fresh(list string) {
	for _, name := range nodes(list) {
		if l.units[name] != nil {
			l.wipe(name)
		}
		l.start(string(name), true)
	}
}

// oneMesh checks that all nodes with an electorate have the same lineage.
func (l *lab) oneMesh() {
	l.t.Helper()
	var lineage uint64
	for _, name := range l.names {
		if u := l.units[name]; u.m != nil && u.m.Known().Version > 0 {
			if lineage != 0 && u.m.Known().Lineage != lineage {
				l.t.Fatalf("%s is in another mesh: %+v", name, u.m.Known())
			}
			lineage = u.m.Known().Lineage
		}
	}
}

const aMoment = birthMargin + time.Second

func TestAMeshIsBornOfTheExpectedNumber(t *testing.T) {
	for _, test := range []struct {
		expect    int
		processes string
		voters    string
	}{
		{1, "a", "a"}, {2, "a b", "a, b"}, {3, "a b c", "a, b, c"}, {3, "a b c d", "a, b, c"}, {5, "a b c d e", "a, b, c, d, e"},
	} {
		l := countLab(t, test.expect)
		l.fresh(test.processes)
		l.pass(aMoment)
		l.want(test.processes, "1: "+test.voters)
		l.oneMesh()
		if e := l.units["a"].m.Known(); e.Most != MaxVoters || !l.units["a"].m.Votes() {
			t.Errorf("%d expected: %+v", test.expect, e)
		}
		for _, name := range l.names {
			if alarms := l.units[name].alarms; len(alarms) > 0 {
				t.Errorf("%s says %q", name, alarms)
			}
		}
	}
}

// Processes that start in turn find each other before any process pledges.
func TestFoundersHaveBeenTheSameForAWhile(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("b c d")
	l.pass(birthMargin - 300*time.Millisecond)
	l.fresh("a")
	l.pass(birthMargin - 300*time.Millisecond)
	for _, name := range l.names {
		if p := l.units[name].m.state.Pledge; len(p) > 0 {
			t.Fatalf("%s has pledged to %v", name, p)
		}
	}
	l.pass(time.Second)
	l.want("a b c d", "1: a, b, c")
}

// A process that reaches two others can't found a mesh with both while the two don't reach each
// other.
func TestFoundersReachEachOther(t *testing.T) {
	l := countLab(t, 3)
	l.lose = func(m letter) bool { return m.from == "b" && m.to == "c" || m.from == "c" && m.to == "b" }
	l.fresh("a b c")
	l.pass(20 * maxTTL)
	l.want("a b c", "none")
	if p := l.units["a"].m.state.Pledge; len(p) > 0 {
		t.Errorf("a has pledged to %v", p)
	}
	if text := l.units["a"].m.Status(l.now).Change; !strings.Contains(text, "until 3 processes (Expect) all reach each other") {
		t.Error(text)
	}
	l.lose = nil
	l.pass(aMoment)
	l.want("a b c", "1: a, b, c")
}

// A broken link keeps only its two ends from founding a mesh together: others that all reach each
// other are the founders. Gossip shows both ends alive to each other, and the others know that both
// are fresh. Two broken links leave no three of four.
func TestABrokenLinkKeepsNoMeshFromItsBirth(t *testing.T) {
	sampled.Computes(t)
	cut := func(l *lab, links ...[2]vote.NodeID) {
		l.lose = func(m letter) bool {
			return slices.Contains(links, [2]vote.NodeID{m.from, m.to}) || slices.Contains(links, [2]vote.NodeID{m.to, m.from})
		}
	}
	const all = "a b c d"
	for i, v := range nodes(all) {
		for _, w := range nodes(all)[i+1:] {
			l := countLab(t, 3)
			cut(l, [2]vote.NodeID{v, w})
			l.fresh(all)
			l.pass(aMoment + mostYields*yieldFor)
			for _, name := range l.names {
				if e := l.units[name].m.Known(); e.Version == 0 || !slices.ContainsFunc([]vote.NodeID{v, w}, func(end vote.NodeID) bool { return !e.Names(end) }) {
					t.Errorf("without the link from %s to %s, %s knows %+v: %s", v, w, name, e, l.units[name].m.Status(l.now).Change)
				}
			}
			l.oneMesh()
		}
	}
	l := countLab(t, 3)
	cut(l, [2]vote.NodeID{"a", "b"}, [2]vote.NodeID{"c", "d"})
	l.fresh(all)
	l.pass(20 * maxTTL)
	l.want(all, "none")
}

// The search for founders gives up where many links are broken.
func TestTheSearchForFoundersIsBounded(t *testing.T) {
	var all []vote.Elector
	for i := range 60 {
		all = append(all, vote.Elector{Name: vote.NodeID(fmt.Sprintf("%02d", i)), Dir: vote.Dir(i + 1)})
	}
	asked := 0
	linked := func(v, w vote.Elector) bool { // eight groups, without a link within a group
		asked++
		return v.Dir%8 != w.Dir%8
	}
	if set := firstClique(all, 9, linked); set != nil || asked < cliqueWork || asked > cliqueWork+len(all) {
		t.Errorf("%d pairs were compared, and found %v", asked, set)
	}
	if set := firstClique(all, 8, linked); !slices.Equal(set, all[:8]) {
		t.Errorf("found %v", set)
	}
}

// A live process that hasn't answered may know of a mesh, so a birth waits for the answer: without
// end for as many as can be the majority of a mesh, and for less for a long time.
func TestABirthWaitsForProcessesThatMayKnowOfAMesh(t *testing.T) {
	l := countLab(t, 3)
	l.seen["x"], l.seen["y"] = Seen{"x", 77, vote.Alive}, Seen{"y", 78, vote.Alive}
	l.cfg.MinVoters = 3
	l.fresh("a b c")
	l.pass(20 * maxTTL)
	l.want("a b c", "none")
	if text := l.units["a"].m.Status(l.now).Change; !strings.Contains(text, "an answer of ") {
		t.Error(text)
	}
	l.seen["y"] = Seen{"y", 78, vote.Failed}
	l.gossip()
	l.pass(aMoment)
	l.want("a b c", "1: a, b, c")

	l = countLab(t, 3)
	l.seen["x"] = Seen{"x", 77, vote.Alive}
	l.cfg.MinVoters = 3
	l.fresh("a b c")
	l.pass(AbandonAfter(maxTTL) - time.Second)
	l.want("a b c", "none")
	l.pass(aMoment + time.Second)
	l.want("a b c", "1: a, b, c")
}

// Gossip that is wrong for a moment about silent processes shortens no wait for them: they have
// been silent since gossip first showed them.
func TestAMomentInGossipEndsNoSilence(t *testing.T) {
	l := countLab(t, 3)
	l.seen["x"], l.seen["y"] = Seen{"x", 77, vote.Alive}, Seen{"y", 78, vote.Alive}
	l.cfg.MinVoters = 3
	l.fresh("a b c")
	for range 5 {
		l.pass(maxTTL)
		for _, name := range nodes("x y") {
			s := l.seen[name]
			l.seen[name] = Seen{name, s.Dir, vote.Failed}
			l.gossip()
			l.seen[name] = s
			l.gossip()
		}
	}
	l.pass(AbandonAfter(maxTTL) - maxTTL)
	l.want("a b c", "none")
}

// Gossip shows dead processes for seconds. If processes of ever new names die before they answer,
// some such process is always silent, and delays a birth for a long time, but not without end. A
// process that was heard of as fresh, and then died, delays nothing.
func TestDeadProcessesOfEverNewNames(t *testing.T) {
	l := countLab(t, 3)
	l.cfg.MinVoters = 3
	die := func(i int) {
		l.seen[vote.NodeID(fmt.Sprintf("x%d", i))] = Seen{vote.NodeID(fmt.Sprintf("x%d", i)), vote.Dir(100 + i), vote.Alive}
		delete(l.seen, vote.NodeID(fmt.Sprintf("x%d", i-3)))
		l.gossip()
		l.pass(maxTTL / 2)
	}
	for i := range 3 {
		die(i)
	}
	l.fresh("a b c")
	for i := range 11 {
		die(3 + i)
	}
	l.want("a b c", "none")
	for i := range 3 {
		die(14 + i)
	}
	l.want("a b c", "1: a, b, c")

	l = countLab(t, 3)
	l.cfg.MinVoters = 3
	l.fresh("a b c d e")
	l.pass(300 * time.Millisecond)
	dead := []Seen{l.seen["d"], l.seen["e"]}
	l.stop("d e")
	for _, s := range dead {
		l.seen[s.Name] = s
	}
	l.gossip()
	l.pass(2 * aMoment)
	l.want("a b c", "1: a, b, c")
}

// Of the founders only the first to pledge waits for dead processes of ever new names: the others
// may see such processes at other times.
func TestDeadProcessesThatOnlyTheOtherFoundersSee(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b c")
	for i := range 4 {
		for _, name := range nodes("b c") {
			l.seen["x"] = Seen{vote.NodeID(fmt.Sprintf("x%d%s", i, name)), vote.Dir(100 + i), vote.Alive}
			l.gossipTo([]vote.NodeID{name})
			delete(l.seen, "x")
		}
		l.pass(birthMargin / 2)
	}
	l.want("a b c", "1: a, b, c")
}

// A process that comes and goes doesn't begin the wait of the others anew, whether or not it would
// be a founder.
func TestAProcessThatComesAndGoesDelaysNoBirth(t *testing.T) {
	for _, gray := range []vote.NodeID{"a", "d"} {
		for _, up := range []time.Duration{300 * time.Millisecond, birthMargin / 2, birthMargin - 100*time.Millisecond} {
			l := countLab(t, 3)
			l.fresh("a b c d")
			for range 12 {
				l.pass(up)
				l.stop(string(gray))
				l.pass(300 * time.Millisecond)
				l.fresh(string(gray))
			}
			for _, name := range nodes("b c") {
				if e := l.units[name].m.Known(); e.Version == 0 {
					t.Errorf("beside %s, which runs for %v at a time, %s: %s", gray, up, name, l.units[name].m.Status(l.now).Change)
				}
			}
		}
	}
}

// A process doesn't pledge to a set if a member has pledged to another set: such a set can't be
// completed.
func TestNoProcessPledgesToAnImpossibleSet(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a")
	u := l.units["a"]
	id := func(name vote.NodeID) vote.Elector { return vote.Elector{Name: name, Dir: vote.Dir(100 + name[0])} }
	set, other := []vote.Elector{u.m.Elector(), id("b"), id("c")}, []vote.Elector{id("b"), id("c"), id("d")}
	report := func(conn vote.Conn, name vote.NodeID, pledge []vote.Elector) {
		self := vote.SessionID{Node: name, Incarnation: vote.Incarnation(name[0])}
		u.m.Link(l.now, conn, self)
		e := &vote.Consensus{Dir: id(name).Dir, Founding: true, MaxVoters: 7, Contacts: append(other, u.m.Elector())}
		e.Electorate.Voters, e.Electorate.Most = pledge, 7
		u.m.Receive(l.now, conn, self, &vote.Message{Kind: vote.KindReport, Consensus: e})
	}
	report(1, "c", other)
	report(2, "b", set)
	if p := u.m.state.Pledge; len(p) > 0 {
		t.Fatalf("a has pledged to %v, and c to %v", p, other)
	}
	report(1, "c", nil)
	if p := u.m.state.Pledge; !slices.Equal(p, set) {
		t.Errorf("a has pledged to %v", p)
	}
}

// A single mesh is born, however many processes start at once.
func TestManyStartAtOnce(t *testing.T) {
	sampled.Computes(t)
	l := countLab(t, 3)
	for i := range 30 {
		l.fresh(fmt.Sprintf("p%02d", (7*i)%30))
		l.pass(100 * time.Millisecond)
	}
	l.pass(aMoment)
	l.oneMesh()
	l.pass(10 * maxTTL)
	for _, name := range l.names {
		if l.units[name].m.Known().Version == 0 {
			t.Errorf("%s knows nothing: %s", name, l.units[name].m.Status(l.now).Change)
		}
	}
}

func TestFewerThanExpectedFoundNothing(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b")
	l.pass(30 * maxTTL)
	l.want("a b", "none")
	if len(l.units["a"].m.state.Pledge) != 0 {
		t.Error("a has pledged to two")
	}
	l.fresh("c")
	l.pass(aMoment)
	l.want("a b c", "1: a, b, c")
}

func TestOneAloneWaitsForNothing(t *testing.T) {
	l := countLab(t, 1)
	l.fresh("a")
	l.pass(0)
	l.want("a", "1: a")
}

func TestAFreshProcessJoinsAndFoundsNothing(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b c")
	l.pass(aMoment)
	lineage := l.units["a"].m.Known().Lineage
	l.fresh("d e f")
	l.pass(20 * maxTTL)
	l.oneMesh()
	for _, name := range nodes("d e f") {
		if e := l.units[name].m.Known(); e.Lineage != lineage || vote.VersionNumber(e.Version) < 2 {
			t.Errorf("%s knows %+v", name, e)
		}
	}
}

// Processes end, and processes with other names take their places: the electorate follows.
func TestProcessesComeAndGo(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b c")
	l.pass(aMoment)
	names := "d e f g h i"
	alive := []string{"a", "b", "c"}
	for _, next := range strings.Fields(names) {
		l.fresh(next)
		l.pass(3 * maxTTL)
		l.stop(alive[0])
		alive = append(alive[1:], next)
		l.pass(10 * maxTTL)
		l.oneMesh()
		e := l.units[vote.NodeID(alive[0])].m.Known()
		if got := namesOf(e); !slices.Equal(got, alive) {
			t.Fatalf("the voters are %v, and %v live", got, alive)
		}
	}
}

func namesOf(e *vote.Electorate) (all []string) {
	for _, v := range e.Voters {
		all = append(all, string(v.Name))
	}
	return all
}

func TestNoElectorateIsSmallerThanTheLeast(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b c")
	l.pass(aMoment)
	l.units["c"].m.Leave(l.now)
	l.pass(10 * maxTTL)
	l.stop("c")
	l.seen["c"] = Seen{"c", l.units["c"].disk.Dir, vote.Left}
	l.gossip()
	l.pass(20 * maxTTL)
	l.want("a b", "1: a, b, c")

	// A voter accepts no electorate with smaller majorities from any proposer either.
	u := l.units["a"]
	e := *u.m.Known()
	small := vote.Electorate{Version: e.Version + 1, Lineage: e.Lineage, Voters: e.Voters[:1], Old: e.Voters, Most: e.Most, MaxTTL: e.MaxTTL, OldMaxTTL: e.MaxTTL}
	u.m.Receive(l.now, vote.LocalConn, u.self, &vote.Message{Kind: vote.KindAccept, Version: small.Version, Consensus: &vote.Consensus{Ballot: vote.Ballot{Counter: 9, By: 1}, Electorate: small}})
	if u.m.state.Accepted.Counter == 9 {
		t.Error("it was accepted")
	}
}

func TestTotalLossHeals(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b c")
	l.pass(aMoment)
	was := l.units["c"].m.Known().Lineage
	identity := l.units["c"].m.Elector()
	l.fresh("a b") // two of three are replaced at once: c remembers a lost mesh
	l.pass(5 * maxTTL)
	for _, name := range nodes("a b") {
		if e := l.units[name].m.Known(); e.Version != 0 && e.Lineage != was {
			t.Fatalf("%s has founded while c is a member: %+v", name, e)
		}
	}
	l.pass(2*maxTTL + aMoment)
	l.oneMesh()
	for _, name := range nodes("a b c") {
		if e := l.units[name].m.Known(); e.Version == 0 || e.Lineage == was {
			t.Fatalf("%s knows %+v; %+v", name, e, l.units[name].m.Status(l.now))
		}
	}
	if l.units["c"].m.Elector() == identity {
		t.Error("c has kept its identity")
	}
}

// A lost mesh is forgotten in time, however often new processes come and learn of the lost mesh.
func TestNoProcessKeepsALostMeshAlive(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b c")
	l.pass(aMoment)
	l.fresh("x") // x knows the mesh without being a voter
	l.pass(maxTTL / 2)
	was := l.units["c"].m.Known().Lineage
	l.stop("a b")
	for _, name := range nodes("p q r s t u v w") {
		l.fresh(string(name))
		l.pass(maxTTL)
	}
	l.pass(2*maxTTL + aMoment)
	l.oneMesh()
	for _, name := range l.names {
		if u := l.units[name]; u.m != nil && (u.m.Known().Version == 0 || u.m.Known().Lineage == was) {
			t.Errorf("%s knows %+v; %+v", name, u.m.Known(), u.m.Status(l.now))
		}
	}
}

// unfinished loses all pledges except a's: all processes pledge, and no process knows the pledges
// of all.
func unfinished(m letter) bool {
	return m.from != "a" && m.m.Kind == vote.KindReport && len(m.m.Consensus.Electorate.Voters) > 0
}

// A founder ends between its pledge and the birth. The other founders give up their pledges and
// identities, and found a mesh with the next process.
func TestAnUnfinishedPledgeIsUndone(t *testing.T) {
	l := countLab(t, 3)
	l.lose = unfinished
	l.fresh("a b c")
	l.pass(aMoment)
	before := l.units["a"].m.Elector()
	if len(l.units["a"].m.state.Pledge) != 3 {
		t.Fatalf("a has pledged to %v", l.units["a"].m.state.Pledge)
	}
	l.lose = nil
	l.stop("b")
	l.pass(pledgePatience + aMoment)
	l.want("a c", "none")
	if now := l.units["a"].m.Elector(); now == before || len(l.units["a"].m.state.Pledge) != 0 {
		t.Errorf("a is still %v, pledged to %v", now, l.units["a"].m.state.Pledge)
	}
	l.fresh("d")
	l.pass(2 * aMoment)
	l.want("a c d", "1: a, c, d")
}

// An identity is never a member of two meshes: a process that has pledged, and learns of another
// mesh, joins under a new identity.
func TestAPledgedProcessJoinsAsAnother(t *testing.T) {
	l := countLab(t, 3)
	l.lose = unfinished
	l.fresh("a b c")
	l.pass(aMoment)
	u := l.units["b"]
	pledged := u.m.Elector()
	if len(u.m.state.Pledge) != 3 {
		t.Fatal("b hasn't pledged")
	}
	voters := []vote.Elector{{Name: "x", Dir: 101}, {Name: "y", Dir: 102}, {Name: "z", Dir: 103}}
	e := vote.Electorate{Version: vote.BirthVersion(7) + 3, Lineage: 7, Voters: voters}
	other := e
	other.Voters = []vote.Elector{pledged, {Name: "x", Dir: 101}, {Name: "y", Dir: 102}}
	report := func(contacts []vote.Elector) {
		u.m.Receive(l.now, vote.Conn(1), vote.SessionID{Node: "x", Incarnation: 99}, &vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: e, Contacts: contacts}})
	}
	report(voters[:1])
	if u.m.Elector() != pledged || u.m.Known().Version != 0 {
		t.Error("b believes one that reaches no majority")
	}
	e = other // b has even been voted in
	report(voters[:2])
	if u.m.Elector() == pledged || u.m.Known().Version != 0 {
		t.Error("b goes on as the one that has pledged")
	}
	report(voters[:2])
	if vote.VersionNumber(u.m.Known().Version) != 4 {
		t.Error("b doesn't join")
	}
}

// The limit on the electorate's size is the limit of the lowest founder, however the others are
// configured.
func TestTheFoundersAgreeOnALimit(t *testing.T) {
	l := countLab(t, 3)
	for name, most := range map[string]int{"c": 5, "a": 9, "b": 3} {
		l.cfg.MaxVoters = most
		l.fresh(name)
	}
	l.pass(aMoment)
	l.want("a b c", "1: a, b, c")
	for _, name := range l.names {
		if u := l.units[name]; u.m.Known().Most != 9 || len(u.alarms) > 0 {
			t.Errorf("%s: %+v, %v", name, u.m.Known(), u.alarms)
		}
	}
}

func TestNoTwoRebirthsHaveOneIdentity(t *testing.T) {
	seen := make(map[vote.Dir]bool)
	for life := range vote.Incarnation(50) {
		for births := range uint64(50) {
			seen[nextIdentity(life<<32, births)] = true
		}
	}
	if len(seen) != 2500 || seen[0] {
		t.Errorf("%d identities of 2500", len(seen))
	}
}

// All voters leave at once, while other processes are on standby. The voters are replaced in steps,
// since an electorate never has fewer voters than its minimum, and most voters of the next
// electorate vote already.
func TestAllVotersLeaveAtOnceAndAreReplaced(t *testing.T) {
	sampled.Computes(t)
	for _, test := range []struct {
		expect    int
		old, next string
	}{{3, "a b c", "d e f"}, {5, "a b c d e", "f g h i j"}, {2, "a b", "c d"}} {
		l := countLab(t, test.expect)
		l.fresh(test.old)
		l.pass(aMoment)
		l.fresh(test.next)
		l.pass(200 * time.Millisecond) // no new process can be voted in yet
		for _, name := range nodes(test.old) {
			if l.units[name].m.Votes() {
				l.setOwnVoter(l.units[name]).Leave(l.now)
				l.collect(l.units[name])
			}
		}
		l.run()
		l.pass(30 * maxTTL)
		for _, name := range nodes(test.old) {
			if e := l.units[name].m.Known(); e.Names(name) {
				t.Errorf("%s is a voter of %s, and wants to leave: %+v", name, text(e), l.units[name].m.Status(l.now))
			}
		}
	}
}

// Unsettled reports why no voter should be stopped on purpose: another voter is leaving, or the
// newest process can't take a voter's place yet.
func TestWhatIsNotSettled(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b c")
	l.pass(3 * maxTTL)
	l.fresh("d")
	l.pass(200 * time.Millisecond)
	unsettled := func(name vote.NodeID, want string) {
		t.Helper()
		if got := l.units[name].m.Unsettled(l.now); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	unsettled("a", "")
	unsettled("d", "has just started")
	l.pass(maxTTL)
	unsettled("d", "")
	l.setOwnVoter(l.units["a"]).Leave(l.now)
	l.collect(l.units["a"])
	l.pass(maxTTL)
	unsettled("d", "being changed")
	l.pass(10 * maxTTL)
	unsettled("d", "the process a hasn't ended yet")
	l.stop("a")
	l.pass(maxTTL)
	unsettled("d", "")
	l.setOwnVoter(l.units["b"]).Leave(l.now) // without a replacement
	l.collect(l.units["b"])
	l.pass(maxTTL)
	unsettled("c", "the voter b is leaving")
	l.fresh("e")
	l.units["e"].m.Leave(l.now) // e never votes
	l.pass(200 * time.Millisecond)
	unsettled("e", "the voter b is leaving")
}

// Three of five voters leave at once, with no process on standby. A single leaver stays, since
// three voters are the minimum; two of five would have been no majority.
func TestOfFiveVotersThreeLeaveAndOneOfThemStays(t *testing.T) {
	l := countLab(t, 5)
	l.fresh("a b c d e")
	l.pass(aMoment)
	for _, name := range nodes("a b c") {
		l.setOwnVoter(l.units[name]).Leave(l.now)
		l.collect(l.units[name])
	}
	l.run()
	l.pass(10 * maxTTL)
	if e := l.units["d"].m.Known(); len(e.Voters) != 3 || e.Joint() || !e.Names("d") || !e.Names("e") {
		t.Errorf("the voters are %s", text(e))
	}
}
