package electorate

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// apart cuts all connections between two groups of nodes for good. Gossip still sees all nodes.
func (l *lab) apart(some, others string) {
	for _, c := range l.wires() {
		w := l.conns[c]
		from, to := nodes(some), nodes(others)
		if slices.Contains(from, w.from) && slices.Contains(to, w.to) || slices.Contains(from, w.to) && slices.Contains(to, w.from) {
			l.cut(c)
		}
	}
}

// Direct contact with a majority decides about seats, while gossip sees all nodes all the time.
func TestDirectContactOfAMajorityDecides(t *testing.T) {
	for _, c := range []struct{ name, standbys, some, others, want string }{
		{"a voter that no other voter reaches is replaced", "d", "c", "a b", "3: a, b, d"},
		{"also where a node on standby reaches it", "d", "c", "a b", "3: a, b, d"},
		{"one that one of two others reaches stays", "d", "c", "a", "1: a, b, c"},
		{"also where the first in order is the one that does", "d", "c", "b", "1: a, b, c"},
		{"without a replacement the seat is kept", "", "c", "a b", "1: a, b, c"},
		{"the first in order is cut off", "d", "a", "b c", "3: b, c, d"},
	} {
		l := founded(t, "a b c")
		if c.standbys != "" {
			l.start(c.standbys, false)
		}
		l.pass(3 * maxTTL)
		l.apart(c.some, c.others)
		l.pass(FailAfter(maxTTL))
		l.want("b", "1: a, b, c")
		l.pass(5 * maxTTL)
		in := "b"
		if strings.HasPrefix(c.want, "3") && c.some != "a" {
			in = "a b"
		}
		for _, n := range nodes(in) {
			if got := text(l.units[n].m.Known()); got != c.want {
				t.Errorf("%s: %s applies %q, want %q", c.name, n, got, c.want)
			}
		}
	}
}

// A candidate is voted in once a majority of the voters reaches the candidate. Contact with the
// proposer isn't enough.
func TestACandidateIsVotedInWhereAMajorityReachesIt(t *testing.T) {
	l := founded(t, "a b c")
	l.start("d e", false)
	l.apart("d e", "b c")
	l.pass(6 * maxTTL)
	l.want("a b c", "1: a, b, c")
	if by := l.units["a"].m.Status(l.now).Standby; len(by) > 0 {
		t.Errorf("%v could be voted in, a says", by)
	}
	for _, n := range nodes("d e") {
		l.link("b", n)
		l.run()
	}
	l.pass(SettleAfter(maxTTL) - maxTTL/10)
	l.want("a b c", "1: a, b, c")
	l.pass(4 * maxTTL)
	l.want("a b c d e", "3: a, b, c, d, e")
}

// A voter that is reached stays, for as long as it answers the other voters, though no gossip sees
// the voter.
func TestAVoterWithinReachStaysWithoutGossip(t *testing.T) {
	for _, state := range []vote.Presence{vote.Failed, vote.Unseen, vote.Left} {
		l := founded(t, "a b c")
		l.start("d", false)
		l.pass(3 * maxTTL)
		l.seen["c"] = Seen{"c", l.units["c"].disk.Dir, state}
		l.gossip()
		l.pass(10 * maxTTL)
		l.want("a b c", "1: a, b, c")
	}
}

// A node of an older version doesn't report its contacts. Its report is evidence neither for nor
// against the presence of another node.
func TestAnOldersWordOnContactIsNone(t *testing.T) {
	b := scene(t, "3: a b c", "b c=gone d")
	b.m.others["b"].report.contacts = nil
	b.m.compareContacts()
	if tie := b.m.tie(elector("c")); tie.cut != 0 {
		t.Error("a alone says that c is gone")
	}
	if tie := b.m.tie(elector("d")); tie.met != 0 {
		t.Error("a alone says that d is there")
	}
}

// However many nodes there are, the reported contacts fit into a message, voters first.
func TestContactsAreBounded(t *testing.T) {
	var others []string
	for i := range 2 * vote.MaxVoters {
		others = append(others, "x"+string(rune('A'+i/10))+string(rune('0'+i%10)))
	}
	b := scene(t, "3: a b c", "b c "+strings.Join(others, " "))
	all := b.m.contacts()
	if len(all) != vote.MaxVoters || !slices.Equal(all[:3], electors("a b c")) {
		t.Errorf("contact with %d: %s", len(all), names(all))
	}
}

// Two of three voters come back with empty directories, and are restarted again and again. The
// voters with the old directories count as lost all the while.
func TestLostDoesntFlap(t *testing.T) {
	l := founded(t, "a b c")
	l.start("d", false)
	l.pass(2 * maxTTL)
	for _, n := range nodes("b c") {
		l.wipe(n)
		l.start(string(n), false)
	}
	l.pass(FailAfter(maxTTL) + maxTTL/2)
	lost := func(when string) {
		t.Helper()
		for _, n := range nodes("a d") {
			if s := l.units[n].m.Status(l.now).Lost; !strings.Contains(s, "b, which is back with another state directory") {
				t.Fatalf("%s: %s says %q", when, n, s)
			}
		}
	}
	lost("after a while")
	for range 5 {
		for _, n := range nodes("b c") {
			l.stop(string(n))
			lost("a wiped node is down")
			l.start(string(n), false)
			lost("a wiped node is back")
		}
		for range 20 {
			l.pass(maxTTL / 10)
			lost("later")
		}
		now := l.seen["b"]
		l.seen["b"] = Seen{"b", 2, vote.Alive} // late gossip
		l.gossip()
		lost("gossip tells of the old directory")
		l.seen["b"] = now
		l.gossip()
		lost("gossip tells of the new one")
	}
	// The old directory is found, and the voter is back.
	l.stop("b")
	l.units["b"].disk = vote.DiskState{Mesh: "m", Name: "b", Dir: 2, Writes: 100, Electorate: *l.units["a"].m.Known()}
	l.start("b", false)
	if s := l.units["a"].m.Status(l.now).Lost; s != "" {
		t.Errorf("b is back: %q", s)
	}
}
