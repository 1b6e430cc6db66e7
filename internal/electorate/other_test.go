package electorate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestANodeThatIsBehindIsToldOncePerConnection(t *testing.T) {
	b := newBench(t, "3: a b c")
	const stranger = 7
	b.m.NoteVersion(b.now, stranger, 3)
	b.m.NoteVersion(b.now, stranger, 4)
	b.expect("")
	b.m.NoteVersion(b.now, stranger, 2)
	b.expect("g: electorate 3: a, b, c")
	b.m.NoteVersion(b.now, stranger, 2)
	b.m.NoteVersion(b.now, stranger, 0)
	b.expect("")
	b.m.Unlink(b.now, stranger)
	b.m.NoteVersion(b.now, stranger, 2)
	b.expect("g: electorate 3: a, b, c")
	b.m.NoteVersion(b.now, vote.LocalConn, 0)
	b.expect("")

	e := electorate("5: a b")
	b.say("b", vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: e}})
	b.expect("") // before the electorate is stored, only nodes that ask receive it
	b.m.NoteVersion(b.now, stranger, 2)
	b.expect("g: electorate 5: a, b")
	b.save("")
	b.expect("b: electorate 5: a, b; c: electorate 5: a, b; g: electorate 5: a, b")
}

func TestAReportNamesWhatIsStored(t *testing.T) {
	b := newBench(t, "3: a b c")
	e := electorate("5: a b")
	b.say("b", vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: e}})
	b.m.NoteVersion(b.now, 2, 1)
	out := b.m.Drain(nil)
	if m := out[len(out)-1].Message; m.Kind != vote.KindElectorate || m.Epoch != 3 || m.Consensus.Electorate.Version != 5 {
		t.Fatalf("%+v", m)
	}
	b.save("")
	out = b.m.Drain(nil)
	if m := out[0].Message; m.Kind != vote.KindElectorate || m.Epoch != 5 {
		t.Fatalf("%+v", m)
	}
}

func TestLearning(t *testing.T) {
	for _, c := range []struct {
		name, e string
		change  func(e *vote.Electorate)
		want    string
		alarm   bool
	}{
		{"a newer one", "9: a d", nil, "9: a, d", false},
		{"an older one", "2: a d", nil, "3: a, b, c", false},
		{"the same", "3: a b c", nil, "3: a, b, c", false},
		{"none", "0:", nil, "3: a, b, c", false},
		{"another of the same version", "3: a b d", nil, "3: a, b, c", true},
		{"a newer one of another founding", "9: a d", func(e *vote.Electorate) { e.Lineage = 6 }, "3: a, b, c", true},
		{"an older one of another founding", "1: a d", func(e *vote.Electorate) { e.Lineage = 6 }, "3: a, b, c", true},
	} {
		b := newBench(t, "3: a b c")
		e := electorate(c.e)
		if c.change != nil {
			c.change(&e)
		}
		for range 2 {
			b.say("b", vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: e}})
		}
		if got := text(b.m.Known()); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
		alarms := b.m.Alarms()
		if (len(alarms) == 1) != c.alarm || len(alarms) > 1 {
			t.Errorf("%s: alarms %q", c.name, alarms)
		}
	}
}

func TestWhatWasPromisedForOneVersionDoesNotBindTheNext(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.say("b", accept(ballot(9, 9), "4: a b (a b c)"))
	b.save("")
	e := electorate("4: a b (a b c)")
	b.say("b", vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{Electorate: e}})
	b.save("")
	b.sent()
	b.say("b", prepare(5, ballot(1, 7)))
	if s := b.save(""); s.Promised != ballot(1, 7) || s.Accepted != (vote.Ballot{}) || s.Value.Version != 0 {
		t.Fatalf("%+v", s)
	}
	b.expect("b: prepared 1/7")
}

func TestNonsenseIsIgnored(t *testing.T) {
	b := newBench(t, "3: a b c")
	for k := vote.KindElectorate; k <= vote.KindAccepted; k++ {
		if k != vote.KindPoll {
			b.say("b", vote.Message{Kind: k})
		}
		if k != vote.KindPoll {
			b.m.Receive(b.now, 99, vote.SessionID{Node: "x", Incarnation: 1}, &vote.Message{Kind: k, Consensus: &vote.Consensus{}})
		}
	}
	b.m.Receive(b.now, 99, vote.SessionID{Node: "b", Incarnation: 1}, &vote.Message{Kind: vote.KindReport, Consensus: &vote.Consensus{Dir: 66}})
	if b.m.others["b"].confirmed {
		t.Error("a report over another connection counts")
	}
	if len(b.m.Saves())+len(b.m.Alarms()) > 0 {
		t.Error("something came of it")
	}
	b.expect("")
}

func TestBallotsWithoutAnOwnerAreIgnored(t *testing.T) {
	for _, a := range []vote.Ballot{ballot(1<<64-1, 7), ballot(vote.MaxBallot+1, 7), ballot(5, 0), ballot(0, 7)} {
		b := newBench(t, "3: a b c")
		b.say("b", prepare(4, a))
		b.say("b", accept(a, "4: a b (a b c)"))
		for k := vote.KindPrepare; k <= vote.KindAccepted; k++ {
			b.say("b", vote.Message{Kind: k, Version: 4, Consensus: &vote.Consensus{Promised: a}})
		}
		if b.m.number > 5 || b.m.state.Promised != (vote.Ballot{}) || len(b.m.Saves()) > 0 {
			t.Errorf("%v: the next ballot has a number above %d, and %v was promised", a, b.m.number, b.m.state.Promised)
		}
	}
}

func TestTheLargestBallotPossibleEndsNothing(t *testing.T) {
	l := founded(t, "a b c")
	l.start("d e", false)
	l.mail = append(l.mail, letter{l.wires()[0], "b", "a", l.units["b"].self.Incarnation, prepare(2, ballot(1<<64-1, 7))})
	l.pass(6 * maxTTL)
	l.want("a b c d e", "3: a, b, c, d, e")
}

func TestAnOldCopyIsNoticed(t *testing.T) {
	l := founded(t, "a b c")
	old := l.units["c"].disk
	for range 3 {
		l.stop("c")
		l.start("c", false)
		l.pass(maxTTL)
	}
	l.stop("c")
	l.units["c"].disk = old
	l.start("c", false)
	l.pass(maxTTL)
	for _, name := range []vote.NodeID{"a", "b"} {
		if a := l.units[name].alarms; len(a) != 1 || !strings.HasPrefix(a[0], "the state directory of c is an old copy") {
			t.Errorf("%s raises %q", name, a)
		}
	}
	c := l.units["c"]
	if c.m.Trusted() || len(c.alarms) != 1 || !strings.Contains(c.m.Status(l.now).Trouble, "is an old copy: a knows of later writes to it. Stop this node") {
		t.Errorf("c trusts itself: %q, %+v", c.alarms, c.m.Status(l.now))
	}
	// c does not count.
	if !l.units["a"].m.Trusted() || l.units["a"].m.applies(vote.Elector{Name: "c", Dir: old.Dir}, 0) {
		t.Error("a counts on c")
	}
	l.pass(FailAfter(maxTTL) + 4*maxTTL)
	l.want("a b", "1: a, b, c") // no node can take c's seat
	// With its file removed, c is a new node.
	l.wipe("c")
	l.start("c", false)
	l.pass(4 * maxTTL)
	l.want("a b c", "5: a, b, c")
}

func TestAnOldCopyIsFoundOutOnce(t *testing.T) {
	b := newBench(t, "3: a b c")
	said := func(life vote.Incarnation, writes uint64) string {
		if o := b.m.others["b"]; o.incarnation != life {
			b.m.Unlink(b.now, 2)
			b.m.Link(b.now, 2, vote.SessionID{Node: "b", Incarnation: life})
		}
		b.say("b", vote.Message{Kind: vote.KindReport, Nonce: b.m.nonce, Epoch: 3, Consensus: &vote.Consensus{Dir: 2, Writes: writes}})
		return b.sent()
	}
	for _, c := range []struct {
		life   vote.Incarnation
		writes uint64
		want   string
	}{
		{7, 5, ""},
		{7, 9, ""},
		{7, 8, ""},  // out of order, within an incarnation
		{8, 0, ""},  // a new incarnation that has stored nothing yet
		{8, 10, ""}, // each start is a write
		{9, 12, ""}, // died during a save, stored or not
		{10, 13, ""},
		{11, 13, "b: refused"},
		{11, 14, "b: refused"}, // more writes, and still no trust
		{11, 99, "b: refused"},
	} {
		if got := said(c.life, c.writes); got != c.want {
			t.Errorf("life %d, %d writes: %q, want %q", c.life, c.writes, got, c.want)
		}
	}
	if a := b.m.Alarms(); len(a) != 1 {
		t.Errorf("alarms %q", a)
	}
}

func TestACrashDuringASaveIsNoOldCopy(t *testing.T) {
	for _, there := range []bool{false, true} {
		l := founded(t, "a b c")
		c := l.units["c"]
		for range 20 {
			l.pass(50 * time.Millisecond)
			c.slow = true
			c.m.Receive(l.now, 0, vote.SessionID{Node: "a", Incarnation: 1}, &vote.Message{
				Kind: vote.KindPrepare, Version: 2, Consensus: &vote.Consensus{Ballot: ballot(c.m.state.Promised.Counter+1, 1)},
			})
			l.collect(c)
			if len(c.saves) != 1 {
				t.Fatal("nothing is being saved")
			}
			l.pass(250 * time.Millisecond) // c reports its writes
			if there {
				c.disk = c.saves[0]
			}
			l.stop("c")
			l.start("c", false) // c reports again before its first save is done
			l.pass(250 * time.Millisecond)
			l.flushAll("c")
			c.slow = false
		}
		l.pass(maxTTL)
		for _, name := range l.names {
			if a := l.units[name].alarms; len(a) > 0 {
				t.Errorf("saved: %v; %s raises %q", there, name, a)
			}
		}
	}
}

func TestDistrust(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.m.Distrust(b.now, "b")
	b.m.Distrust(b.now, "c")
	if a := b.m.Alarms(); len(a) != 1 {
		t.Fatalf("alarms %q", a)
	}
	b.m.Receive(b.now, 2, vote.SessionID{Node: "b", Incarnation: 7}, &vote.Message{Kind: vote.KindPoll, Nonce: 4})
	out := b.m.Drain(nil)
	if m := out[0].Message; m.Kind != vote.KindReport || m.Counting {
		t.Fatalf("it says that it counts: %+v", m)
	}
	if b.m.Next() != vote.Never {
		t.Fatal("it goes on polling")
	}
	if err := b.m.Recover(b.now, nodes("a"), 0); err == nil || !strings.Contains(err.Error(), "old copy") {
		t.Fatalf("%v", err)
	}
}

func TestRecover(t *testing.T) {
	l := founded(t, "a b c")
	l.start("d", false)
	l.pass(2 * maxTTL)
	a := l.units["a"].m
	if err := a.Recover(l.now, nodes("a b"), 0); !errors.Is(err, ErrNotLost) {
		t.Fatalf("with a majority there: %v", err)
	}
	l.stop("b c")
	l.pass(2 * maxTTL)
	for _, c := range []struct{ names, bad string }{
		{"a b", "this node is not in touch with b; name only nodes that are up"},
		{"a x", "not in touch with x"},
		{"d", "this node, a, must be among the voters"},
		{"a d d", "twice the same"},
	} {
		if err := a.Recover(l.now, nodes(c.names), 0); err == nil || !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v, want %q", c.names, err, c.bad)
		}
	}
	l.want("a", "1: a, b, c")
	if err := l.units["d"].m.Recover(l.now, nodes("d"), 0); err != nil {
		t.Errorf("d isn't a voter and may be all that is left: %v", err)
	}
	if err := newLabMachine(t).Recover(l.now, nodes("a"), 0); err == nil || !strings.Contains(err.Error(), "knows of no electorate") {
		t.Errorf("%v", err)
	}

	l = founded(t, "a b c")
	l.start("d", false)
	l.stop("b c")
	l.pass(2 * maxTTL)
	lineage := l.units["a"].m.Known().Lineage
	if err := l.units["a"].m.Recover(l.now, nodes("a d"), 12345); err != nil {
		t.Fatal(err)
	}
	l.collect(l.units["a"])
	l.run()
	l.want("a d", "1048577: a, d")
	if e := l.units["d"].m.Known(); e.MinToken != 12345 || e.Lineage != lineage || e.Joint() {
		t.Fatalf("%+v", e)
	}
	if !RecoveredBetween(1, 1048577) || RecoveredBetween(1048577, 1048578) || RecoveredBetween(0, 1) || !RecoveredBetween(0, 1048577) {
		t.Error("the recovered electorate is wrong")
	}
	// Nodes that come back take over the recovered electorate, whatever they had stored.
	l.start("b c", false)
	l.pass(6 * maxTTL)
	l.want("a b c d", "1048579: a, b, d")
	for _, name := range l.names {
		if al := l.units[name].alarms; len(al) > 0 {
			t.Errorf("%s raises %q", name, al)
		}
	}
}

func TestAStuckNodeIsNoVoterAfterARecovery(t *testing.T) {
	for _, c := range []struct{ how, bad string }{{"", ""}, {"=stuck", "directory of d can't be written"}, {"=copied", "directory of d can't be written"}} {
		b := scene(t, "3: a b c", "b=gone c=gone d"+c.how)
		switch err := b.m.Recover(b.now, nodes("a d"), 0); {
		case c.bad == "" && err != nil:
			t.Errorf("d%s: %v", c.how, err)
		case c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)):
			t.Errorf("d%s: %v, want %q", c.how, err, c.bad)
		}
	}
	b := scene(t, "3: a b c", "b=gone c=gone d")
	b.say("d", prepare(4, ballot(5, 7)))
	b.save("no space")
	if err := b.m.Recover(b.now, nodes("a d"), 0); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("with a full disk: %v", err)
	}
}

// newLabMachine returns a machine without an electorate.
func newLabMachine(t *testing.T) *Machine {
	l := newLab(t, "x")
	l.start("a", false)
	return l.units["a"].m
}

func TestStatus(t *testing.T) {
	l := founded(t, "a b c")
	l.start("d", false)
	l.pass(2 * maxTTL)
	s := l.units["a"].m.Status(l.now)
	if !s.Voter || s.Stored != 1 || s.Dir != 1 || !slices.Equal(s.Standby, nodes("d")) || s.Change != "" || s.Trouble != "" || s.Lost != "" {
		t.Errorf("all is well: %+v", s)
	}
	if s := l.units["d"].m.Status(l.now); s.Voter || text(&s.Electorate) != "1: a, b, c" || len(s.Standby) > 0 || s.Lost != "" {
		t.Errorf("of one who stands by: %+v", s)
	}
	l.stop("b c")
	l.pass(FailAfter(maxTTL) - time.Millisecond)
	if s := l.units["a"].m.Status(l.now); s.Lost != "" {
		t.Errorf("too soon: %q", s.Lost)
	}
	l.pass(time.Second)
	const want = "a majority of electorate 1 (a, b, c) is gone: b for 4s, c for 4s. No lock can be granted until enough of them are back"
	if s := l.units["a"].m.Status(l.now); !strings.HasPrefix(s.Lost, want) {
		t.Errorf("lost: %q", s.Lost)
	}
	if s := l.units["d"].m.Status(l.now); !strings.HasPrefix(s.Lost, "a majority of electorate 1 (a, b, c) is gone: b for 4s, c for 4s") {
		t.Errorf("lost, as d sees it: %q", s.Lost)
	}
	l.start("b", false)
	if s := l.units["a"].m.Status(l.now); s.Lost != "" {
		t.Errorf("one is back: %q", s.Lost)
	}

	b := scene(t, "3: a b c", "b c=gone d")
	b.pass(0)
	if s := b.m.Status(b.now).Change; s != "c out (it is gone), d in: waits for the voters' decision" {
		t.Errorf("%q", s)
	}
	b = scene(t, "3: b c (b c d)", "b c d")
	if s := b.m.Status(b.now).Change; s != "from b, c, d to b, c" {
		t.Errorf("%q", s)
	}
	b = drainBench(t)
	b.pass(1)
	if s := b.m.Status(b.now).Change; s != "from a, b to a, b, c: waits for the voters' decision; missing: b, c" {
		t.Errorf("%q", s)
	}
}

// wanted returns the nodes that a node wants connections to, sorted and each once.
func wanted(b *bench) []vote.NodeID {
	names := b.m.AppendWanted(nil)
	slices.Sort(names)
	return slices.Compact(names)
}

func TestWhichNodesAreWanted(t *testing.T) {
	for _, c := range []struct {
		name, e, others, want string
	}{
		{"founders and all who are there", "0:", "b c d=nodir e=gone", "b c d"},
		{"a voter: those who may stand by", "3: a b c", "b c d e=nodir f=gone", "b c d"},
		{"one who doesn't vote: nobody", "3: b c d", "b c d e", ""},
		{"with no majority in touch: whoever is there", "3: b c d", "b=gone c=gone d e=nodir f", "d e f"},
	} {
		b := scene(t, c.e, c.others)
		if got := wanted(b); !slices.Equal(got, nodes(c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	b := scene(t, "3: b c d", "b c d e f=nodir g=gone")
	b.m.cfg.Expect, b.m.cfg.MinVoters = 4, 3
	if got := wanted(b); !slices.Equal(got, nodes("b c d e")) {
		t.Errorf("a process on standby, of a mesh without a register: %q", got)
	}
	b.m.cfg.RegisterTerm = time.Minute
	if got := wanted(b); len(got) > 0 {
		t.Errorf("and with a register: %q", got)
	}
	many := "b c"
	for i := 'd'; i < 'd'+30; i++ {
		many += " " + string(i)
	}
	if got := wanted(scene(t, "3: a b c", many)); len(got) != wantedMost+2 {
		t.Errorf("%d of many are wanted", len(got))
	}
	// In a mesh with Expect, nodes that say that they can't be voted in take no room from others.
	for _, cannot := range []string{"stuck", "leaving"} {
		many := "b c"
		for i := 'd'; i < 'd'+20; i++ {
			many += " " + string(i) + "=" + cannot
		}
		b := scene(t, "3: a b c", many+" z")
		b.m.cfg.Expect, b.m.cfg.MinVoters = 3, 3
		if got := wanted(b); !slices.Contains(got, "z") || len(got) != wantedMost+3 {
			t.Errorf("%s: %d are wanted: %q", cannot, len(got), got)
		}
	}
}

// Gossip shows dead nodes alive for a while. They take no room from nodes that report, and where
// there are more than there is room for, each is tried in turn.
func TestSilentNodesAreTriedByTurns(t *testing.T) {
	many, silent := "b c", map[vote.NodeID]bool{}
	for i := range 40 {
		name := fmt.Sprintf("s%02d", i)
		many += " " + name + "=silent"
		silent[vote.NodeID(name)] = true
	}
	b := scene(t, "3: a b c", many+" x y z")
	for range 4 {
		got := wanted(b)
		if len(got) != 2+wantedMost || !slices.Contains(got, "x") || !slices.Contains(got, "y") || !slices.Contains(got, "z") {
			t.Errorf("wanted: %q", got)
		}
		for _, name := range got {
			delete(silent, name)
		}
		b.pass(triedFor(maxTTL))
		for _, name := range nodes("b c x y z") {
			b.m.others[name].reportedAt = b.now.Slow
		}
	}
	if len(silent) > 0 {
		t.Errorf("never tried: %v", silent)
	}
}

// Fresh processes that start together want the same nodes, the first by name: if each wanted those
// that reported first, no Expect of many would all be linked to each other.
func TestFreshProcessesWantTheFirstByName(t *testing.T) {
	others, first := "", []vote.NodeID(nil)
	for i := range 2 * wantedMost {
		name := fmt.Sprintf("n%02d", i)
		if i < wantedMost {
			others += " " + name + "=silent"
			first = append(first, vote.NodeID(name))
		} else {
			others += " " + name
		}
	}
	b := scene(t, "0:", others)
	b.m.cfg.Founders, b.m.cfg.Expect = nil, 7
	if got := wanted(b); !slices.Equal(got, first) {
		t.Errorf("wanted: %q", got)
	}
}

// A node that reports is wanted though gossip sees it failed.
func TestGossipEndsNoContactWithANodeThatReports(t *testing.T) {
	b := scene(t, "3: a b c", "b c x y")
	for _, seen := range []vote.Presence{vote.Failed, vote.Left} {
		b.m.Gossip(b.now, []Seen{{"b", 2, vote.Alive}, {"c", 3, vote.Alive}, {"x", b.m.others["x"].dir, seen}, {"y", b.m.others["y"].dir, vote.Alive}})
		if got := slices.Contains(wanted(b), "x"); got != (seen == vote.Failed) {
			t.Errorf("gossip sees %v: wanted %v", seen, got)
		}
	}
	b = scene(t, "3: a b c", "b c x=silent")
	b.m.Gossip(b.now, []Seen{{"b", 2, vote.Alive}, {"c", 3, vote.Alive}, {"x", b.m.others["x"].dir, vote.Failed}})
	if got := wanted(b); slices.Contains(got, "x") {
		t.Errorf("a silent failed node is wanted: %q", got)
	}
}

// Starts that are longer apart than a crash loop lasts are restarts by an operator.
func TestStartsFarApartAreNoCrashLoop(t *testing.T) {
	const loop = 6 * time.Second
	for _, apart := range []time.Duration{loop - 1, loop} {
		var u uncounted
		for i := range 5 {
			at := vote.Instant(i+1) * vote.Instant(apart)
			u.note(at, vote.Incarnation(i+1), false, false, loop)
			u.note(at+1, vote.Incarnation(i+1), false, false, loop)
		}
		want := uncounted{since: vote.Instant(apart), starts: 5, last: 5, lastAt: vote.Instant(5 * apart)}
		if apart == loop {
			want.since, want.starts = want.lastAt, 1
		}
		if u != want {
			t.Errorf("started each %v: %+v, want %+v", apart, u, want)
		}
	}
}

// Nodes on standby get connections beside the voters of a large electorate. If the voters took all
// the room, no node would ever be voted in.
func TestVotersTakeNoRoomFromNodesOnStandby(t *testing.T) {
	voters, others := "a", "z"
	for i := range wantedMost {
		name := " " + string(rune('b'+i))
		voters, others = voters+name, others+name
	}
	if got := wanted(scene(t, "3: "+voters, others)); !slices.Contains(got, "z") {
		t.Errorf("z stands by, and is never spoken with: %q", got)
	}
}

func TestGossipThatForgetsAMember(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.m.Gossip(b.now, []Seen{{"a", 1, vote.Alive}, {"b", 2, vote.Alive}, {"d", 4, vote.Alive}, {"e", 5, vote.Failed}})
	since := b.now.Slow
	b.pass(time.Millisecond)
	b.m.Gossip(b.now, []Seen{{"a", 1, vote.Alive}, {"b", 2, vote.Alive}})
	if b.m.others["d"] != nil || b.m.others["e"] != nil {
		t.Error("d and e are never forgotten")
	}
	if b.m.others["a"] != nil {
		t.Error("we are another")
	}
	b.pass(time.Millisecond)
	b.m.Gossip(b.now, nil)
	if o := b.m.others["b"]; o.seen != vote.Unseen || o.since == since {
		t.Errorf("%+v", o)
	}
	since = b.m.others["b"].since
	b.m.Gossip(b.now, []Seen{{"b", 2, vote.Failed}})
	b.pass(time.Millisecond)
	b.m.Gossip(b.now, nil)
	if o := b.m.others["b"]; o.since != since {
		t.Error("that one who is gone is forgotten is no news")
	}
}

// A forgotten node is in no list any more: nothing is decided with the node's last report.
func TestANodeThatIsForgottenIsInNoList(t *testing.T) {
	b := newBench(t, "3: a b c")
	all := []Seen{{"a", 1, vote.Alive}, {"b", 2, vote.Alive}, {"c", 3, vote.Alive}}
	for range 2 {
		b.m.Gossip(b.now, append(slices.Clone(all), Seen{"d", 4, vote.Alive}))
		b.m.Gossip(b.now, all)
		var left []vote.NodeID
		for _, o := range b.m.sorted() {
			left = append(left, o.name)
		}
		if !slices.Equal(left, nodes("b c")) {
			t.Fatalf("%q are listed, and d is forgotten", left)
		}
	}
}
