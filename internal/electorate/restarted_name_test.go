package electorate

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestAProcessRestartedUnderItsNameGetsItsSeat: an orchestrator of services with fixed names, such
// as systemd, starts a process again under its name. There is no spare process.
func TestAProcessRestartedUnderItsNameGetsItsSeat(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	for _, name := range []string{"a", "b", "c", "a"} {
		l.stop(name)
		l.pass(2 * maxTTL)
		l.fresh(name)
		l.pass(20 * maxTTL)
		dir := l.units[vote.NodeID(name)].m.Elector().Dir
		for _, on := range nodes("a b c") {
			if e := l.units[on].m.Known(); len(e.Voters) != 3 || e.Joint() || !e.Has(vote.Elector{Name: vote.NodeID(name), Dir: dir}) {
				t.Fatalf("%s was restarted, and %s has the electorate %+v", name, on, e)
			}
		}
	}
}

// TestVotersRestartedUnderTheirNamesAreReplacedInTurn: two of five at once, of which none may be
// missed.
func TestVotersRestartedUnderTheirNamesAreReplacedInTurn(t *testing.T) {
	l := countLab(t, 5)
	l.cfg.MinVoters = 5
	l.fresh("a b c d e")
	l.pass(2 * aMoment)
	l.want("a b c d e", "1: a, b, c, d, e")
	l.stop("a b")
	l.pass(2 * maxTTL)
	l.fresh("a b")
	least := 5
	for range 20 {
		l.pass(maxTTL)
		least = min(least, len(l.units["c"].m.Known().Voters))
	}
	e := l.units["c"].m.Known()
	for _, name := range nodes("a b c d e") {
		if !e.Has(l.units[name].m.Elector()) {
			t.Errorf("%s has no seat: %+v", name, e)
		}
	}
	if least != 4 {
		t.Errorf("at least %d voters, want 4: a majority of four is as large as one of five", least)
	}
}

// TestAMajorityOfTheMinimumIsKept: with an even minimum fewer voters would need fewer votes, and
// the mesh would act beside another that fewer processes found.
func TestAMajorityOfTheMinimumIsKept(t *testing.T) {
	l := countLab(t, 4)
	l.cfg.MinVoters = 4
	l.fresh("a b c d")
	l.pass(2 * aMoment)
	l.want("a b c d", "1: a, b, c, d")
	l.stop("a")
	l.pass(2 * maxTTL)
	l.fresh("a")
	l.pass(20 * maxTTL)
	l.want("b c d", "1: a, b, c, d")
	for voters, want := range map[int]bool{2: false, 3: false, 4: true, 5: true} {
		if got := l.units["b"].m.isLargeEnough(voters); got != want {
			t.Errorf("%d voters are enough: %t", voters, got)
		}
	}
}

// TestAnElectorateComesBackToItsMinimum: one of five voters has ended for good, and then another
// is restarted under its name. The electorate has five seats again, one of them of the absent
// voter, and goes on to be settled.
func TestAnElectorateComesBackToItsMinimum(t *testing.T) {
	sampled.Computes(t)
	l := countLab(t, 5)
	l.cfg.MinVoters = 5
	l.fresh("a b c d e")
	l.pass(2 * aMoment)
	l.stop("b")
	l.pass(20 * maxTTL)
	for _, name := range []string{"a", "c", "a"} {
		l.stop(name)
		l.pass(2 * maxTTL)
		l.fresh(name)
		l.pass(40 * maxTTL)
		m := l.units["d"].m
		if e := m.Known(); len(e.Voters) != 5 || !e.Has(l.units[vote.NodeID(name)].m.Elector()) {
			t.Errorf("%s was restarted, and the electorate is %+v", name, e)
		}
		if text := m.Unsettled(l.now); text != "" {
			t.Errorf("%s was restarted, and the mesh isn't settled: %s", name, text)
		}
	}
}

// TestAVoterThatLeavesBesideANamesake: while the electorate has a voter less, another voter begins
// to leave. It stays until the restarted process has its seat.
func TestAVoterThatLeavesBesideANamesake(t *testing.T) {
	l := countLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.stop("a")
	l.pass(2 * maxTTL)
	l.fresh("a")
	for range 100 {
		if len(l.units["b"].m.Known().Voters) == 2 {
			break
		}
		l.pass(maxTTL / 10)
	}
	l.setOwnVoter(l.units["b"]).Leave(l.now)
	l.collect(l.units["b"])
	l.pass(20 * maxTTL)
	if e := l.units["c"].m.Known(); len(e.Voters) != 3 || !e.Has(l.units["a"].m.Elector()) {
		t.Errorf("the electorate is %+v", e)
	}
}

// TestACrashLoopUnderOneName: whenever the process crashes again, the electorate comes to three
// living voters in the end, with the process or, once it is gone for good, with another.
func TestACrashLoopUnderOneName(t *testing.T) {
	sampled.Computes(t)
	for at := range 12 {
		l := countLab(t, 3)
		l.fresh("a b c")
		l.pass(2 * aMoment)
		for range 4 {
			l.stop("a")
			l.pass(maxTTL / 2)
			l.fresh("a")
			l.pass(time.Duration(at) * maxTTL / 2)
		}
		l.pass(30 * maxTTL)
		if e := l.units["b"].m.Known(); len(e.Voters) != 3 || e.Joint() || !e.Has(l.units["a"].m.Elector()) {
			t.Fatalf("%d: %+v", at, e)
		}
		l.stop("a")
		l.pass(maxTTL / 2)
		l.fresh("a")
		l.pass(time.Duration(at) * maxTTL / 2)
		l.stop("a")
		l.pass(20 * maxTTL)
		l.fresh("d")
		l.pass(20 * maxTTL)
		if e := l.units["b"].m.Known(); len(e.Voters) != 3 || e.Joint() || !e.Has(l.units["d"].m.Elector()) {
			t.Fatalf("%d: d: %+v", at, e)
		}
	}
}
