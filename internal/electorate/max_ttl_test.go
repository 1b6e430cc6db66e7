package electorate

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// configureTTL restarts nodes with another MaxTTL in their configuration.
func (l *lab) configureTTL(d time.Duration, list string) {
	was := l.cfg.MaxTTL
	l.cfg.MaxTTL = d
	for _, n := range nodes(list) {
		l.stop(string(n))
		l.start(string(n), false)
	}
	l.cfg.MaxTTL = was
	l.pass(maxTTL)
}

// wantTTL checks the decided maximum TTL known to nodes: how long voters grant leases, and how long
// voters are quiet.
func (l *lab) wantTTL(list string, grants, quiet time.Duration) {
	l.t.Helper()
	for _, name := range nodes(list) {
		e := l.units[name].m.Known()
		if g, q := e.GrantLimit(0), e.QuietTime(0); g != grants || q != quiet {
			l.t.Fatalf("%s knows that voters grant %v and are quiet for %v, want %v and %v (%s)", name, g, q, grants, quiet, text(e))
		}
	}
}

// A majority of the voters changes the maximum TTL, up and down. While the electorate is joint,
// voters grant no more than the smaller value, and are quiet for the larger; the joint electorate
// is drained for the larger.
func TestMaxTTLIsDecidedWithTheElectorate(t *testing.T) {
	for _, c := range []struct {
		name string
		to   time.Duration
	}{{"raised", 4 * maxTTL}, {"lowered", maxTTL / 4}} {
		t.Run(c.name, func(t *testing.T) {
			l := founded(t, "a b c")
			l.wantTTL("a b c", maxTTL, maxTTL)
			l.start("d", false)
			l.configureTTL(c.to, "d") // on standby
			l.configureTTL(c.to, "a")
			l.pass(20 * maxTTL)
			l.want("a b c d", "1: a, b, c")
			l.wantTTL("a b c d", maxTTL, maxTTL)
			for _, n := range []vote.NodeID{"a", "d"} {
				if s := l.units[n].m.Status(l.now).Differs; !strings.HasPrefix(s, "MaxTTL is "+c.to.String()+" on this node, and 1s by decision of the voters") {
					t.Errorf("%s says %q", n, s)
				}
			}
			l.cfg.MaxTTL = c.to
			l.stop("b")
			l.start("b", false)
			for l.units["b"].m.Known().Version == 1 {
				l.pass(maxTTL / 100)
			}
			joint := l.now.Slow
			l.want("a b", "2: a, b, c (a, b, c)")
			l.wantTTL("a b", min(maxTTL, c.to), max(maxTTL, c.to))
			if got, want := l.units["b"].m.maxTTL(), max(maxTTL, c.to); got != want {
				t.Fatalf("b reckons with promises of %v, want %v", got, want)
			}
			for l.units["b"].m.Known().Joint() {
				l.pass(maxTTL / 100)
			}
			if drained := l.now.Slow.Sub(joint); drained < max(maxTTL, c.to) {
				t.Errorf("the joint electorate is over after %v", drained)
			}
			l.pass(maxTTL)
			l.want("a b c d", "3: a, b, c")
			l.wantTTL("a b c d", c.to, c.to)
			if s := l.units["a"].m.Status(l.now).Differs; s != "" {
				t.Errorf("a says %q", s)
			}
			l.pass(20 * max(maxTTL, c.to))
			l.want("a b c d", "3: a, b, c") // c alone is configured with the old value
		})
	}
}

// A single joint electorate takes a voter in and changes the maximum TTL.
func TestMaxTTLChangesBesideAnotherChange(t *testing.T) {
	l := founded(t, "a b c")
	l.start("d", false)
	l.stop("c")
	l.pass(2 * maxTTL)
	for _, n := range []vote.NodeID{"a", "b"} {
		l.units[n].m.cfg.MaxTTL = 2 * maxTTL // as if restarted with this value
		// No proposal before c is given up.
		l.units[n].m.raceAt = l.now.Slow.Add(2 * maxTTL)
	}
	l.pass(30 * maxTTL)
	l.want("a b d", "3: a, b, d")
	l.wantTTL("a b d", 2*maxTTL, 2*maxTTL)
}

// Founders wait until all are configured with the same MaxTTL.
func TestFoundersAgreeOnMaxTTL(t *testing.T) {
	l := newLab(t, "a b c")
	l.cfg.MaxTTL = 2 * maxTTL
	l.start("a", true)
	l.cfg.MaxTTL = maxTTL
	l.start("b c", true)
	l.pass(3 * maxTTL)
	l.want("a b c", "none")
	if s := l.units["b"].m.Status(l.now).Change; !strings.Contains(s, "a (its MaxTTL is 2s, and 1s on this node: configure the same)") {
		t.Errorf("b says %q", s)
	}
	l.stop("a")
	l.start("a", true)
	l.pass(maxTTL)
	l.want("a b c", "1: a, b, c")
	l.wantTTL("a b c", maxTTL, maxTTL)
}

// Leases granted under either value may stand, and the voters of the recovered electorate are quiet
// for the longer.
func TestARecoveredElectorateHasTheLongerMaxTTL(t *testing.T) {
	l := founded(t, "a b c")
	a := l.units["a"].m
	l.configureTTL(maxTTL/4, "a b")
	for !a.Known().Joint() {
		l.pass(maxTTL / 100)
		a = l.units["a"].m
	}
	l.stop("b c")
	l.pass(maxTTL)
	if err := a.Recover(l.now, nodes("a"), 1); err != nil {
		t.Fatal(err)
	}
	l.wantTTL("a", maxTTL, maxTTL)
}

// A joint electorate names the value before and the next, and leads to either, each with its
// voters.
func TestWhichMaxTTLMayFollow(t *testing.T) {
	abc, abd := voters("abc"), voters("abd")
	first := vote.Electorate{Version: 1, Lineage: 5, Voters: abc, Most: 5, MaxTTL: maxTTL}
	joint := vote.Electorate{Version: 2, Lineage: 5, Voters: abd, Old: abc, Most: 5, MaxTTL: 2 * maxTTL, OldMaxTTL: maxTTL}
	final := vote.Electorate{Version: 3, Lineage: 5, Voters: abd, Most: 5, MaxTTL: 2 * maxTTL}
	with := func(e vote.Electorate, change func(*vote.Electorate)) *vote.Electorate {
		change(&e)
		return &e
	}
	same := func(*vote.Electorate) {}
	for _, c := range []struct {
		name    string
		e, next *vote.Electorate
		valid   bool
	}{
		{"a joint one", &first, with(joint, same), true},
		{"a joint one that tells another value before", &first, with(joint, func(e *vote.Electorate) { e.OldMaxTTL = 3 * maxTTL }), false},
		{"a joint one that tells none", &first, with(joint, func(e *vote.Electorate) { e.MaxTTL, e.OldMaxTTL = 0, 0 }), false},
		{"a joint one of a mesh that has decided none", with(first, func(e *vote.Electorate) { e.MaxTTL = 0 }), with(joint, func(e *vote.Electorate) { e.MaxTTL, e.OldMaxTTL = 0, 0 }), true},
		{"the new voters", &joint, with(final, same), true},
		{"the new voters with the old value", &joint, with(final, func(e *vote.Electorate) { e.MaxTTL = maxTTL }), false},
		{"the new voters with a third value", &joint, with(final, func(e *vote.Electorate) { e.MaxTTL = 3 * maxTTL }), false},
		{"back to the old", &joint, with(final, func(e *vote.Electorate) { e.Voters, e.MaxTTL = abc, maxTTL }), true},
		{"back to the old with the new value", &joint, with(final, func(e *vote.Electorate) { e.Voters = abc }), false},
	} {
		if err := CheckSuccessor(c.e, c.next); (err == nil) != c.valid {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// forgetTTL removes the configured maximum TTL from the reports and electorates sent by or to some
// nodes, as a link of wire version 1 does.
func (l *lab) forgetTTL(t *testing.T, list string) {
	l.lose = func(m letter) bool {
		if e := m.m.Consensus; e != nil && (strings.Contains(list, string(m.from)) || strings.Contains(list, string(m.to))) && m.from != m.to {
			if e.Electorate.MaxTTL != 0 {
				t.Errorf("%s tells %s of a decided maximum TTL, which wire version 1 doesn't know", m.from, m.to)
			}
			old := *e
			old.MaxTTL = 0
			m.m.Consensus = &old
			l.deliver(m)
			return true
		}
		return false
	}
}

// With a founder of an older version, no maximum TTL is decided. Then all nodes are configured with
// the same value, and a node with another takes no part, however the node learns of the electorate.
func TestAMeshWithAFounderOfAnOlderVersionDecidesNoMaxTTL(t *testing.T) {
	l := newLab(t, "a b c")
	l.forgetTTL(t, "c")
	l.start("a b c", true)
	l.pass(maxTTL)
	l.want("a b c", "1: a, b, c")
	l.wantTTL("a b c", 0, 0)
	l.lose = nil
	l.configureTTL(2*maxTTL, "a b c") // the handshake would refuse the first restarted node
	l.pass(10 * maxTTL)
	l.wantTTL("a b c", 0, 0)
	l.start("d", false)
	l.pass(maxTTL)
	l.want("d", "none")
}

// In a mesh born by count the longest MaxTTL of the founders counts at first, and the founders are
// quiet for as long; afterwards a majority decides.
func TestMaxTTLOfAMeshThatIsBornByCount(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a")
	l.cfg.MaxTTL = 3 * maxTTL
	l.fresh("b")
	l.cfg.MaxTTL = maxTTL
	l.fresh("c")
	for l.units["a"].m.Known().Version == 0 {
		l.pass(maxTTL / 100)
	}
	e := l.units["a"].m.Known()
	if e.QuietTime(0) != 3*maxTTL || names(e.Voters) != "a, b, c" {
		t.Errorf("it is founded as %+v", e)
	}
	l.pass(20 * maxTTL)
	l.wantTTL("a b c", maxTTL, maxTTL)
}

// The founders of the next mesh rely on the register for a longer maximum TTL, so the record shows
// the longer value before voters grant it. The record never goes back to a shorter value, even if
// written by a voter without knowledge of the longer.
func TestTheRegisterShowsALongerMaxTTLBeforeItIsGranted(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.want("a b c", "1: a, b, c")
	configure := func(d time.Duration) {
		for _, n := range []vote.NodeID{"a", "b"} {
			l.units[n].m.cfg.MaxTTL = d // as if other processes had taken the places
		}
	}
	l.register.readers = nodes("a b c")
	configure(3 * maxTTL)
	l.pass(3 * Drain(3*maxTTL))
	l.want("a b c", "2: a, b, c (a, b, c)")
	if shown := l.register.record.MaxTTL; shown != maxTTL {
		t.Fatalf("the register shows %v", shown)
	}
	l.register.readers = nil
	l.pass(registerTerm)
	l.want("a b c", "3: a, b, c")
	l.wantTTL("a b c", 3*maxTTL, 3*maxTTL)
	if shown := l.register.record.MaxTTL; shown != 3*maxTTL {
		t.Fatalf("the register shows %v, and voters grant %v", shown, 3*maxTTL)
	}
	configure(maxTTL)
	l.pass(2 * registerTerm)
	l.wantTTL("a b c", maxTTL, maxTTL)
	if shown := l.register.record.MaxTTL; shown != 3*maxTTL {
		t.Errorf("the register shows %v", shown)
	}
}

// The record shows the value that all founders will grant, and not only the value configured on the
// writer.
func TestFoundersRegisterTheMaxTTLOfAll(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b")
	l.cfg.MaxTTL = 3 * maxTTL
	l.fresh("c")
	a := l.units["a"].m
	for !a.mustRegister {
		l.pass(maxTTL / 100)
		l.register.hold = "a" // a's next call isn't answered, so the claim is still to be made
	}
	if c := a.store(lineage(a.stored.Pledge)); c.New.MaxTTL != 3*maxTTL {
		t.Errorf("a is to store %+v", c.New)
	}
}

// The lost voters may have raised the maximum TTL after this node was cut off, so the longest value
// ever reported counts.
func TestARecoveredElectorateHasTheLongestMaxTTLHeardOf(t *testing.T) {
	l := founded(t, "a b c")
	l.configureTTL(3*maxTTL, "a")
	l.lose = func(m letter) bool { return m.from == "c" || m.to == "c" }
	l.configureTTL(3*maxTTL, "b")
	l.pass(10 * maxTTL)
	l.wantTTL("a", 3*maxTTL, 3*maxTTL)
	l.wantTTL("c", maxTTL, maxTTL)
	l.stop("a b")
	l.pass(maxTTL)
	if err := l.units["c"].m.Recover(l.now, nodes("c"), 1); err != nil {
		t.Fatal(err)
	}
	l.wantTTL("c", 3*maxTTL, 3*maxTTL)
}

// A process remembers the longer maximum TTL of an electorate given up. Leases granted under this
// electorate may stand, so the founders of the next mesh are quiet for as long, though all are
// configured with less.
func TestAFounderRemembersALongerMaxTTLThanItsOwn(t *testing.T) {
	// The lowest process begins the birth: a new process, or c, which remembers.
	for _, young := range []string{"a b", "d e"} {
		l := countLab(t, 3)
		l.cfg.MaxTTL = 3 * maxTTL
		l.fresh("a b")
		l.cfg.MaxTTL = maxTTL
		l.fresh("c")
		l.pass(aMoment)
		l.wantTTL("c", 3*maxTTL, 3*maxTTL) // configured on most voters
		l.stop("a b")
		l.fresh(young)
		one := l.units[nodes(young)[0]].m
		for one.Known().Version == 0 {
			l.pass(maxTTL / 10)
		}
		if e := one.Known(); e.QuietTime(0) != 3*maxTTL || !e.Names("c") {
			t.Errorf("the next mesh is %+v", e)
		}
	}
}

// A change of voters needs no register; only a longer maximum TTL does.
func TestAChangeOfVotersNeedsNoRegister(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c d")
	l.pass(2 * aMoment)
	l.want("a b c d", "1: a, b, c")
	l.register.down = "no route"
	l.stop("c")
	l.pass(6 * maxTTL)
	if e := l.units["a"].m.Known(); names(e.Voters) != "a, b, d" || e.Joint() {
		t.Errorf("it is %s: %s", text(e), l.units["a"].m.Status(l.now).Change)
	}
}

// Founders agree on MaxTTL before they pledge, even if a founder has already pledged to an
// electorate without a MaxTTL, together with a founder of an older version.
func TestFoundersAgreeOnMaxTTLBeforeTheyPledge(t *testing.T) {
	l := newLab(t, "a b c")
	l.start("a b", true)
	l.stop("a")
	a := l.units["a"]
	a.disk.Pledge, a.disk.PledgeMaxVoters = []vote.Elector{{Name: "a", Dir: 1}, {Name: "b", Dir: 2}, {Name: "c", Dir: 3}}, MaxVoters
	l.start("a", true)
	l.cfg.MaxTTL = 3 * maxTTL
	l.start("c", true)
	l.pass(3 * maxTTL)
	l.want("a b c", "none")
	if s := l.units["c"].m.Status(l.now).Change; !strings.Contains(s, "b (its MaxTTL is 1s, and 3s on this node: configure the same)") {
		t.Errorf("c says %q", s)
	}
}
