package electorate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestFoundersFoundTogether(t *testing.T) {
	for _, founders := range []string{"a", "a b", "a b c", "a b c d e"} {
		l := newLab(t, founders)
		l.start(founders, true)
		l.pass(maxTTL)
		first := l.units["a"].m.Known()
		for _, name := range nodes(founders) {
			u := l.units[name]
			if !u.m.Known().Equal(first) || u.m.Stored().Version != 1 || len(u.alarms) > 0 || !u.m.Votes() {
				t.Errorf("%s: %s knows %+v, a %+v, alarms %q", founders, name, u.m.Known(), first, u.alarms)
			}
			if !u.disk.Electorate.Equal(first) {
				t.Errorf("%s: %s has stored %+v", founders, name, u.disk.Electorate)
			}
		}
		l.want(founders, "1: "+strings.Join(strings.Fields(founders), ", "))
	}
}

func TestNoFoundingWithAFounderMissing(t *testing.T) {
	l := newLab(t, "a b c")
	l.start("a b", true)
	l.pass(10 * maxTTL)
	l.want("a b", "none")
	if s := l.units["a"].m.Status(l.now).Change; s != "waits for all founders; missing: c (not reached)" {
		t.Fatalf("a says %q", s)
	}
	if len(l.units["a"].disk.Pledge) > 0 {
		t.Fatal("a has pledged itself to two of three")
	}
	l.start("c", false) // c isn't configured to bootstrap
	l.pass(10 * maxTTL)
	l.want("a b c", "none")
	if s := l.units["a"].m.Status(l.now).Change; s != "waits for all founders; missing: c (started without Bootstrap)" {
		t.Fatalf("a says %q", s)
	}
	if len(l.units["a"].disk.Pledge) > 0 {
		t.Fatal("a has pledged itself with one who founds nothing")
	}
	l.stop("c")
	l.start("c", true)
	l.pass(maxTTL)
	l.want("a b c", "1: a, b, c")
}

// Founders wait for a live node that doesn't answer, without end: the node may know of an
// electorate. Founders that have lost their directories would found a second mesh otherwise.
func TestFoundersWaitForSilentNodes(t *testing.T) {
	l := newLab(t, "a b c")
	l.seen["x"] = Seen{"x", 0, vote.Alive}
	l.start("a b c", true)
	for i := range 20 { // gossip that is wrong now and then changes nothing
		l.pass(maxTTL)
		l.seen["x"] = Seen{"x", 0, vote.Failed}
		if i%2 == 0 {
			l.seen["x"] = Seen{"x", 0, vote.Alive}
		}
		l.seen["y"] = Seen{vote.NodeID(fmt.Sprintf("y%d", i)), 0, vote.Alive}
		l.gossip()
	}
	l.want("a b c", "none")
	if s := l.units["a"].m.Status(l.now).Change; !strings.Contains(s, "(no founder, but alive and not reached") {
		t.Errorf("a says %q", s)
	}
}

func TestANodeThatIsNoFounderFoundsNothing(t *testing.T) {
	l := newLab(t, "a")
	l.start("b", true)
	l.pass(maxTTL)
	l.want("b", "none")
	if s := l.units["b"].m.Status(l.now).Change; !strings.Contains(s, "waits to reach a node that knows it") {
		t.Fatalf("b says %q", s)
	}
	l.start("a", true)
	l.pass(maxTTL)
	l.want("a b", "1: a")
}

func TestAFounderThatMeetsAnElectorateTakesIt(t *testing.T) {
	l := founded(t, "a b c")
	lineage := l.units["a"].m.Known().Lineage
	for _, name := range []vote.NodeID{"b", "c"} {
		l.wipe(name)
	}
	l.start("b c", true)
	l.pass(3 * maxTTL)
	for _, name := range l.names {
		if e := l.units[name].m.Known(); e.Lineage != lineage || e.Version < 1 {
			t.Errorf("%s applies %+v", name, e)
		}
	}
}

func TestAFounderThatGossipSeesIsAskedFirst(t *testing.T) {
	// x isn't linked, and may know of an electorate.
	l := newLab(t, "a")
	l.seen["x"] = Seen{"x", 77, vote.Alive}
	l.add("a").slow = true
	l.start("a", true)
	l.flushAll("a")
	l.pass(maxTTL)
	l.flushAll("a")
	l.want("a", "none")
	l.seen["x"] = Seen{"x", 77, vote.Failed}
	l.gossip()
	l.units["a"].slow = false
	l.pass(maxTTL)
	l.want("a", "1: a")
}

func TestAFounderThatIsWipedAfterItsPledge(t *testing.T) {
	l := newLab(t, "a b c")
	// All nodes pledge, and no node receives a pledge.
	pledged := func(m letter) bool {
		return m.m.Kind == vote.KindReport && len(m.m.Consensus.Electorate.Voters) > 0
	}
	l.lose = pledged
	l.start("a b c", true)
	l.pass(200e6)
	l.want("a b c", "none")
	for _, name := range l.names {
		if p := l.units[name].disk.Pledge; len(p) != 3 {
			t.Fatalf("%s has pledged itself to %v", name, p)
		}
	}
	was := slices.Clone(l.units["a"].disk.Pledge)
	l.wipe("c")
	l.lose = nil
	l.start("c", true)
	l.pass(20 * maxTTL)
	l.want("a b c", "none")
	if !slices.Equal(l.units["a"].disk.Pledge, was) {
		t.Fatal("a has pledged itself a second time")
	}
	s := l.units["a"].m.Status(l.now).Change
	if !strings.Contains(s, "c (it had another state directory when the bootstrap began: stop all founders, remove their state files, and start them again)") {
		t.Fatalf("a says %q", s)
	}
	for _, name := range nodes("a b c") {
		l.wipe(name)
	}
	l.start("a b c", true)
	l.pass(maxTTL)
	l.want("a b c", "1: a, b, c")
}

func TestAPledgeIsStoredBeforeItIsTold(t *testing.T) {
	l := newLab(t, "a b")
	l.start("a", true)
	l.units["a"].slow = true // from now on: its directory is stored
	l.start("b", true)
	l.pass(3 * maxTTL)
	l.want("a b", "none") // b has pledged; a's pledge waits for its disk
	if len(l.units["b"].disk.Pledge) != 2 {
		t.Fatal("b hasn't pledged")
	}
	for range 4 {
		l.flushAll("a")
		l.pass(maxTTL)
	}
	l.want("a b", "1: a, b")
}

func TestFoundersThatRestartInBetweenFoundTheSame(t *testing.T) {
	// Some reports are lost, and b restarts after each step.
	for loss := range 5 {
		l := newLab(t, "a b c")
		n := 0
		l.lose = func(m letter) bool { n++; return m.m.Kind == vote.KindReport && n%5 == loss }
		l.start("a b c", true)
		for range 6 {
			l.pass(90e6)
			l.stop("b")
			l.start("b", true)
		}
		l.lose = nil
		l.pass(maxTTL)
		l.want("a b c", "1: a, b, c")
		if a, b := l.units["a"].m.Known(), l.units["b"].m.Known(); !a.Equal(b) {
			t.Fatalf("a has founded %+v, b %+v", a, b)
		}
	}
}

// A founder dies before its new directory is stored, comes back with another directory, and takes
// part in the bootstrap.
func TestNoProcessPledgesBeforeItsDirectoryIsStored(t *testing.T) {
	l := newLab(t, "a b")
	b := l.add("b")
	b.slow = true
	l.start("a b", true)
	l.pass(maxTTL)
	l.wipe("b")
	b.slow = false
	l.start("b", true)
	l.pass(maxTTL)
	l.want("a b", "1: a, b")
}

// A node seen by gossip and not reached may know of an electorate, so the founders found nothing;
// their status names the missing node.
func TestFoundersNameTheProcessThatTheyWaitFor(t *testing.T) {
	for _, founders := range []string{"a b c", "a"} {
		l := newLab(t, founders)
		l.start("d", false)
		l.stop("d")
		l.seen["d"] = Seen{"d", l.units["d"].disk.Dir, vote.Alive}
		l.start(founders, true)
		l.pass(3 * maxTTL)
		l.want(founders, "none")
		if s := l.units["a"].m.Status(l.now).Change; !strings.Contains(s, "missing: d (no founder") {
			t.Errorf("%q", s)
		}
		l.start("d", false)
		l.pass(3 * maxTTL)
		if l.units["a"].m.Known().Version == 0 {
			t.Errorf("nothing is founded: %+v", l.units["a"].m.Status(l.now))
		}
	}
}
