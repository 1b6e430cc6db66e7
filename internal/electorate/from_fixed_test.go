package electorate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// fixed returns a lab of nodes converted from the fixed list of a, b and c; no node has started.
func fixed(t *testing.T) *lab { return newLab(t, "a b c") }

// convert starts nodes at the first (frozen) or second restart of a conversion, with the content of
// their directories. Running nodes are stopped first.
func (l *lab) convert(list string, frozen bool) {
	for _, name := range nodes(list) {
		if l.units[name] == nil {
			l.add(name)
		} else {
			l.stop(string(name))
		}
		u := l.units[name]
		if frozen {
			found := u.disk.Electorate.Version > 0
			state, err := Convert(u.disk, found, l.cfg.Founders, maxTTL)
			if err != nil {
				l.t.Fatal(err)
			}
			u.disk = state
		}
		l.cfg.Frozen = frozen
		l.start(string(name), false)
	}
	l.cfg.Frozen = false
}

// Version 1 is the same on every node, and shares no voter with version 1 of another mesh, list or
// maximum TTL.
func TestVersionOneFollowsFromTheList(t *testing.T) {
	first := FromFixed("m", nodes("a b c"), maxTTL)
	if err := first.Check(); err != nil || first.Version != 1 || first.MaxTTL != maxTTL || first.Joint() || names(first.Voters) != "a, b, c" {
		t.Fatalf("%+v: %v", first, err)
	}
	if same := FromFixed("m", nodes("c a b a"), maxTTL); !same.Equal(&first) {
		t.Errorf("in another order it is %+v, not %+v", same, first)
	}
	seen := map[vote.Dir]bool{}
	for _, e := range []vote.Electorate{
		first, FromFixed("n", nodes("a b c"), maxTTL), FromFixed("m", nodes("a b c d"), maxTTL), FromFixed("m", nodes("a b"), maxTTL), FromFixed("m", nodes("a bc"), maxTTL),
		FromFixed("m", nodes("a b c"), 2*maxTTL), FromFixed("m:1", nodes("a b c"), maxTTL),
	} {
		for _, v := range e.Voters {
			if seen[v.Dir] || v.Dir == 0 {
				t.Errorf("the directory %x of %s in %+v isn't its own", uint64(v.Dir), v.Name, e)
			}
			seen[v.Dir] = true
		}
		if e.Lineage == first.Lineage && !e.Equal(&first) {
			t.Errorf("%+v has the lineage of %+v", e, first)
		}
	}
}

func TestConvertMakesTheFirstState(t *testing.T) {
	first := FromFixed("m", nodes("a b c"), maxTTL)
	for name, listed := range map[vote.NodeID]bool{"b": true, "d": false} {
		fresh := vote.DiskState{Mesh: "m", Name: name, Dir: 7}
		got, err := Convert(fresh, false, nodes("c b a"), maxTTL)
		if err != nil || !got.Electorate.Equal(&first) || first.Has(vote.Elector{Name: name, Dir: got.Dir}) != listed || !listed && got.Dir != 7 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		got.Writes = 3
		if again, err := Convert(got, true, nodes("a b c"), maxTTL); err != nil || again.Dir != got.Dir || again.Writes != 3 || !again.Electorate.Equal(&first) {
			t.Errorf("%s once more: %+v, %v", name, again, err)
		}
		later := got
		later.Electorate = vote.Electorate{Version: 4, Lineage: first.Lineage, Voters: first.Voters[:2], Old: first.Voters, MaxTTL: maxTTL, OldMaxTTL: maxTTL}
		// An earlier process has promised, past the second restart.
		later.Promised = vote.Ballot{Counter: 1, By: 1}
		if again, err := Convert(later, true, nodes("a b c"), maxTTL); err != nil || !again.Electorate.Equal(&later.Electorate) {
			t.Errorf("%s with a later version: %+v, %v", name, again, err)
		}
	}
}

func TestConvertRefusesWhatIsNotConverted(t *testing.T) {
	first := FromFixed("m", nodes("a b c"), maxTTL)
	state := func(change func(*vote.DiskState)) vote.DiskState {
		s := vote.DiskState{Mesh: "m", Name: "a", Dir: first.Voters[0].Dir, Electorate: first}
		change(&s)
		return s
	}
	for _, c := range []struct {
		name, want string
		state      vote.DiskState
		list       string
		maxTTL     time.Duration
	}{
		{"of a mesh that was founded", "isn't converted from the Voters [a b c] with MaxTTL 1s", state(func(s *vote.DiskState) { s.Electorate.Lineage++ }), "a b c", maxTTL},
		{"of another list", "from the Voters [a b c] with MaxTTL 1s, and the node is configured with the Voters [a b] ", state(func(*vote.DiskState) {}), "a b", maxTTL},
		{"of another list, left behind", "remove the state directory; don't start the node with this directory and without FromFixed", state(func(*vote.DiskState) {}), "a b c d", maxTTL},
		{"of another list that has promised", "isn't converted from the Voters [a b]", state(func(s *vote.DiskState) { s.Promised = vote.Ballot{Counter: 1, By: 1} }), "a b", maxTTL},
		{"of another list that has accepted", "isn't converted from the Voters [a b]", state(func(s *vote.DiskState) { s.Accepted = vote.Ballot{Counter: 1, By: 1} }), "a b", maxTTL},
		{"of another list that has gone on", "isn't converted from the Voters [a b]", state(func(s *vote.DiskState) { s.Electorate.Version = 2 }), "a b", maxTTL},
		{"of another MaxTTL", "configured with the Voters [a b c] with MaxTTL 2s", state(func(*vote.DiskState) {}), "a b c", 2 * maxTTL},
		{"without an electorate", "before it held an electorate", state(func(s *vote.DiskState) { s.Electorate = vote.Electorate{} }), "a b c", maxTTL},
		{"a new one, of a node voted in anew", "isn't that of the voter a", state(func(s *vote.DiskState) { s.Dir = 7 }), "a b c", maxTTL},
		{"that has promised", "no way back", state(func(s *vote.DiskState) { s.Promised = vote.Ballot{Counter: 1, By: 1} }), "a b c", maxTTL},
		{"that has accepted", "no way back", state(func(s *vote.DiskState) { s.Accepted = vote.Ballot{Counter: 1, By: 1} }), "a b c", maxTTL},
	} {
		if _, err := Convert(c.state, true, nodes(c.list), c.maxTTL); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a directory %s: %v", c.name, err)
		}
	}
}

// A frozen node applies version 1. No change can rest on its messages: a frozen node proposes,
// promises, accepts and reports nothing.
func TestAFrozenNodeDecidesNothing(t *testing.T) {
	l := fixed(t)
	l.convert("a b c", true)
	l.convert("d e", false)
	l.convert("a", false)
	l.pass(20 * maxTTL)
	first := FromFixed("m", nodes("a b c"), maxTTL)
	if err := l.units["a"].m.Propose(l.now, first.Voters[:2]); err != nil {
		t.Fatal(err)
	}
	l.collect(l.units["a"])
	l.pass(3 * maxTTL)
	for _, name := range nodes("a b c d e") {
		if e := l.units[name].m.Known(); !e.Equal(&first) {
			t.Errorf("%s knows %+v", name, e)
		}
	}
	for _, name := range nodes("b c") {
		u := l.units[name]
		if u.disk.Promised.Counter > 0 || u.disk.Accepted.Counter > 0 {
			t.Errorf("%s has promised: %+v", name, u.disk)
		}
		s := u.m.Status(l.now)
		if !s.Voter || s.Lost != "" || !strings.Contains(s.Change, "restarted without FromFixed") {
			t.Errorf("%s: %+v", name, s)
		}
		if err := u.m.Propose(l.now, first.Voters[:2]); err == nil || !strings.Contains(err.Error(), "FromFixed") {
			t.Errorf("%s proposes: %v", name, err)
		}
		if err := u.m.Recover(l.now, nodes(string(name)), 0); err == nil || !strings.Contains(err.Error(), "FromFixed") {
			t.Errorf("%s recovers: %v", name, err)
		}
		u.m.Leave(l.now)
	}
	if !slices.ContainsFunc(l.talk, func(s string) bool { return s == "a>b prepare" }) {
		t.Error("a has asked b for nothing: it has shown nothing")
	}
	for _, s := range l.talk {
		if strings.HasPrefix(s, "b>") || strings.HasPrefix(s, "c>") {
			if kind := s[len("b>c "):]; kind != "report" && kind != "poll" && kind != "electorate" {
				t.Errorf("it says %s", s)
			}
		}
	}
	// With a second node past the second restart a majority of the list decides.
	l.convert("b", false)
	l.pass(4 * maxTTL)
	l.want("a b c d e", "3: a, b, c, d, e")
	if s := l.units["c"].m.Status(l.now); s.Change != "" {
		t.Errorf("c waits for something: %+v", s)
	}
}

// The end of a joint electorate doesn't rest on the memory of a frozen node: a lost directory of a
// frozen node is made again with the same identity.
func TestNoDrainRestsOnAFrozenNode(t *testing.T) {
	l := fixed(t)
	l.convert("a b c", true)
	l.convert("d e", false)
	l.convert("a b", false)
	l.pass(maxTTL + 500*time.Millisecond)
	l.want("a b c d e", "2: a, b, c, d, e (a, b, c)")
	l.stop("b")
	l.pass(3 * maxTTL) // a, c, d and e would be majorities of both
	l.want("a c d e", "2: a, b, c, d, e (a, b, c)")
	if text := l.units["a"].m.Status(l.now).Change; !strings.Contains(text, "missing: b, c") {
		t.Errorf("a waits for something else: %s", text)
	}
	l.convert("c", false)
	l.pass(3 * maxTTL)
	l.want("a c d e", "3: a, b, c, d, e")
}

// A frozen node that isn't on the list can't be voted in.
func TestAFrozenNodeIsNotVotedIn(t *testing.T) {
	l := fixed(t)
	l.convert("a b c", true)
	l.convert("d e", true)
	l.convert("a b c", false)
	l.pass(10 * maxTTL)
	l.want("a b c d e", "1: a, b, c")
	if s := l.units["d"].m.Status(l.now); s.Voter {
		t.Errorf("%+v", s)
	}
	l.convert("d e", false)
	l.pass(10 * maxTTL)
	l.want("a b c d e", "3: a, b, c, d, e")
}

// A converting node with a lost directory has the same identity as before, so the node is taken for
// an old copy, and doesn't vote.
func TestALostDirectoryOfAConvertingNodeIsDistrusted(t *testing.T) {
	l := fixed(t)
	l.convert("a b c", true)
	l.convert("a b", false)
	l.pass(maxTTL)
	l.convert("c", true) // c writes its directory once more
	l.pass(maxTTL)
	l.stop("c")
	l.units["c"].disk = vote.DiskState{Mesh: "m", Name: "c", Dir: 99}
	l.convert("c", true)
	l.pass(maxTTL)
	if s := l.units["c"].m.Status(l.now); s.Voter || !strings.Contains(s.Trouble, "again without FromFixed") {
		t.Errorf("%+v", s)
	}
	l.stop("c")
	l.units["c"].disk = vote.DiskState{Mesh: "m", Name: "c", Dir: 99} // as the status demands
	l.convert("c", false)
	l.pass(20 * maxTTL)
	l.want("a b c", "5: a, b, c")
	if e := l.units["a"].m.Known(); !e.Has(vote.Elector{Name: "c", Dir: 99}) {
		t.Errorf("%+v", e)
	}
}

// The fixed nodes that refuse a dynamic node may be granting locks. The status names this
// possibility before Recover.
func TestFixedNodesAreNotTakenForLost(t *testing.T) {
	l := fixed(t)
	l.convert("a b c", true)
	l.convert("a", false)
	l.pass(maxTTL)
	l.stop("b")
	l.stop("c")
	l.pass(4 * maxTTL)
	if s := l.units["a"].m.Status(l.now); !strings.Contains(s.Lost, "They may be running with the fixed list of voters: then restart them with FromFixed, and don't recover") {
		t.Errorf("%+v", s)
	}
}
