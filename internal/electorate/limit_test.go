package electorate

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// configure restarts nodes with another MaxVoters in their configuration.
func (l *lab) configure(most int, list string) {
	l.cfg.MaxVoters = most
	for _, n := range nodes(list) {
		l.stop(string(n))
		l.start(string(n), false)
	}
	l.cfg.MaxVoters = 0
	l.pass(maxTTL)
}

// No single node changes MaxVoters, neither a node on standby nor a voter; a majority of the voters
// does.
func TestMaxVotersIsDecidedWithTheElectorate(t *testing.T) {
	sampled.Computes(t)
	l := founded(t, "a b c d e f g")
	if most := l.units["a"].m.Known().Most; most != MaxVoters {
		t.Fatalf("the founders have decided on %d", most)
	}
	l.start("h i", false)
	l.configure(3, "h") // on standby
	l.configure(3, "a") // the first in order
	l.configure(3, "b c")
	l.pass(20 * maxTTL)
	l.want("a d h", "1: a, b, c, d, e, f, g")
	if s := l.units["h"].m.Status(l.now).Differs; !strings.HasPrefix(s, "MaxVoters is 3 on this node, and 7 by decision of the voters") {
		t.Errorf("h says %q", s)
	}
	if s := l.units["d"].m.Status(l.now).Differs; s != "" {
		t.Errorf("d says %q", s)
	}
	l.configure(3, "d") // the fourth of seven
	l.pass(20 * maxTTL)
	e := l.units["a"].m.Known()
	if len(e.Voters) != 3 || e.Most != 3 || e.Joint() {
		t.Fatalf("it is %+v", e)
	}
	for _, n := range []string{"a", "h"} {
		if s := l.units[vote.NodeID(n)].m.Status(l.now).Differs; s != "" {
			t.Errorf("%s says %q", n, s)
		}
	}
	if s := l.units["i"].m.Status(l.now).Differs; !strings.HasPrefix(s, "MaxVoters is 7 on this node, and 3 by decision of the voters") {
		t.Errorf("i says %q", s)
	}
}

// The new limit is decided although no node can be voted in yet.
func TestMaxVotersGrowsWithoutAnotherChange(t *testing.T) {
	l := founded(t, "a b c")
	l.configure(9, "a")
	l.pass(5 * maxTTL)
	l.want("a b c", "1: a, b, c")
	l.configure(9, "b")
	l.pass(5 * maxTTL)
	l.want("a b c", "3: a, b, c")
	if most := l.units["c"].m.Known().Most; most != 9 {
		t.Errorf("there may be %d", most)
	}
	l.pass(20 * maxTTL)
	l.want("a b c", "3: a, b, c") // nothing more is decided
}

// Founders wait until all are configured with the same MaxVoters.
func TestFoundersAgreeOnMaxVoters(t *testing.T) {
	l := newLab(t, "a b c")
	l.cfg.MaxVoters = 5
	l.start("a", true)
	l.cfg.MaxVoters = 3
	l.start("b c", true)
	l.pass(3 * maxTTL)
	l.want("a b c", "none")
	if s := l.units["b"].m.Status(l.now).Change; !strings.Contains(s, "a (its MaxVoters is 5, and 3 on this node: configure the same)") {
		t.Errorf("b says %q", s)
	}
	l.stop("a")
	l.start("a", true)
	l.pass(maxTTL)
	l.want("a b c", "1: a, b, c")
	if most := l.units["c"].m.Known().Most; most != 3 {
		t.Errorf("there may be %d", most)
	}
}

// A founder that has pledged bootstraps with the MaxVoters of the pledge, though the founder
// restarts with another value before the bootstrap.
func TestAPledgeHoldsItsMaxVoters(t *testing.T) {
	l := newLab(t, "a b c")
	l.lose = func(m letter) bool { // the pledges of b and c are lost
		return m.from != "a" && m.m.Kind == vote.KindReport && len(m.m.Consensus.Electorate.Voters) > 0
	}
	l.start("a b c", true)
	l.pass(maxTTL)
	l.want("a b c", "none")
	if len(l.units["a"].disk.Pledge) != 3 || l.units["a"].disk.PledgeMaxVoters != MaxVoters {
		t.Fatalf("a has pledged %+v", l.units["a"].disk)
	}
	l.cfg.MaxVoters = 5
	l.stop("a")
	l.start("a", true)
	l.lose = nil
	l.pass(2 * maxTTL)
	l.want("a b c", "1: a, b, c")
	if most := l.units["a"].m.Known().Most; most != MaxVoters {
		t.Errorf("there may be %d", most)
	}
}

// An electorate of an older version has no decided limit. Then the value configured on most voters
// counts, and is decided with the next change.
func TestWhereNoLimitWasDecided(t *testing.T) {
	for _, c := range []struct {
		name         string
		mine, theirs int
		want         int
	}{
		{"all agree", 5, 5, 5},
		{"the others agree", 7, 5, 5},
		{"nobody agrees: there may be as many as there are", 7, 0, 3},
	} {
		b := scene(t, "3: a b c", "b c d e")
		b.m.state.Electorate.Most, b.m.cfg.MaxVoters = 0, c.mine
		for _, n := range nodes("b c") {
			b.m.others[n].report.most = c.theirs
		}
		b.m.reconcile()
		if got := b.m.mostVoters(); got != c.want {
			t.Errorf("%s: there may be %d, want %d", c.name, got, c.want)
		}
		if c.want > 3 && (b.m.race == nil || b.m.race.value.Most != c.want || len(b.m.race.value.Voters) != 5) {
			t.Errorf("%s: it proposes %+v", c.name, b.m.race)
		}
	}
}
