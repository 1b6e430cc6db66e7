package electorate

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// otherMesh is the record of another mesh than the lab's, with the numbers of a register that was
// made anew.
func otherMesh() vote.RegisterRecord {
	return vote.RegisterRecord{Mesh: "m", Lineage: 77, Term: registerTerm, MaxTTL: maxTTL, Renewal: 1, Writer: vote.Elector{Name: "x", Dir: 9}}
}

// TestADeletedRecordThatNamesAnotherMesh: after the record was deleted, another mesh was founded,
// and its numbers begin anew, so that the record looks like an old one. The earlier mesh must not
// write over the record, and gives up after a term.
func TestADeletedRecordThatNamesAnotherMesh(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.register.record = otherMesh()
	l.pass(registerTerm * 9 / 10)
	l.want("a b c", "1: a, b, c")
	for range 3 {
		l.register.record.Renewal++
		l.pass(registerTerm / 5)
	}
	l.want("a b c", "none")
	if r := l.register.record; r.Lineage != 77 {
		t.Errorf("the register has %+v: a mesh that the register doesn't name has written the record", r)
	}
}

// lockedOut returns a lab of the voters a, b and c, which the given function keeps from the
// register, and of processes that may use the register.
func lockedOut(t *testing.T, able string, keep func(r *register)) *lab {
	t.Helper()
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	keep(&l.register)
	l.pass(registerTerm) // later the voters can change nothing any more
	l.fresh(able)
	l.awaitLockout()
	l.wantCounting("")
	return l
}

// awaitLockout waits until the voter a sees that most voters can't use the register.
func (l *lab) awaitLockout() {
	l.t.Helper()
	for range 3 * registerTerm / maxTTL {
		if l.units["a"].m.register.lockedOutSince != 0 {
			return
		}
		l.pass(maxTTL)
	}
	l.t.Fatal("a sees no lockout")
}

func deaf(r *register) { r.deaf = nodes("a b c") }

// TestTwoShortLockoutsAreNoLongOne: a mesh gives up only if the voters can't use the register for
// a whole term at once.
func TestTwoShortLockoutsAreNoLongOne(t *testing.T) {
	sampled.Computes(t)
	for _, pause := range []struct {
		name       string
		begin, end func(l *lab)
	}{
		{"the voters can use the register", func(l *lab) { l.register.deaf = nil }, func(l *lab) { deaf(&l.register) }},
		{"too few others could found a mesh", func(l *lab) { l.stop("f") }, func(l *lab) { l.fresh("f") }},
		{"another process leaves", func(l *lab) {
			l.setOwnVoter(l.units["f"]).Leave(l.now)
			l.collect(l.units["f"])
		}, func(l *lab) { l.stop("f"); l.fresh("f") }},
	} {
		t.Run(pause.name, func(t *testing.T) {
			l := lockedOut(t, "d e f", deaf)
			l.pass(registerTerm * 6 / 10)
			pause.begin(l)
			l.pass(registerTerm / 10)
			if since := l.units["a"].m.register.lockedOutSince; since != 0 {
				t.Fatalf("locked out since %v", since)
			}
			pause.end(l)
			l.awaitLockout()
			l.pass(registerTerm * 6 / 10)
			if e := l.units["a"].m.Known(); e.Lineage != l.register.record.Lineage || e.Version == 0 {
				t.Errorf("a has given up its electorate too early: %+v", e)
			}
			was := l.register.record.Lineage
			l.pass(2 * registerTerm)
			if l.register.record.Lineage == was {
				t.Error("a lockout of a whole term ends nothing, so the test shows nothing")
			}
		})
	}
}

// TestVotersThatMayStoreAgainGoOn: while their mesh is about to give up, voters that could store
// nothing try on, so that a right given back in time keeps the mesh.
func TestVotersThatMayStoreAgainGoOn(t *testing.T) {
	l := lockedOut(t, "d e f", func(r *register) { r.readers = nodes("a b c") })
	l.register.readers = nil
	l.pass(registerTerm / 4)
	l.wantCounting("a b c d e") // d and e have been voted in, as two of five
}

// TestALeavingVoterKeepsItsTerm: the others need its votes until another process takes its place.
func TestALeavingVoterKeepsItsTerm(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.setOwnVoter(l.units["a"]).Leave(l.now)
	l.collect(l.units["a"])
	l.pass(3 * registerTerm / 2)
	l.want("a b c", "1: a, b, c")
	l.wantCounting("a b c")
}

// TestASingleFailureLongAfterAnother: a call that fails keeps a process from a seat only if calls
// have failed for a while, without a success in between.
func TestASingleFailureLongAfterAnother(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c d")
	l.pass(5 * maxTTL)
	d := l.units["d"].m
	fails := func() {
		t.Helper()
		l.register.deaf = nodes("d")
		for range 10 * registerTerm / maxTTL {
			if l.pass(maxTTL / 10); d.register.failing != 0 {
				break
			}
		}
		if d.register.failing == 0 || d.cannotRegister() {
			t.Fatalf("%+v", d.register)
		}
		l.register.deaf = nil
	}
	fails()
	l.pass(registerTerm)
	fails()
}

// TestARecordThatWasDeletedKeepsNoProcessFromABirth: a process without an electorate misses no
// record, though it has seen one.
func TestARecordThatWasDeletedKeepsNoProcessFromABirth(t *testing.T) {
	l := registerLab(t, 3)
	l.register.record = otherMesh()
	l.fresh("a b")
	l.pass(registerTerm / 2)
	l.register.record = vote.RegisterRecord{}
	l.pass(registerTerm)
	if l.units["a"].m.IsBarred() {
		t.Error("the register lets a mesh be born, and waits for a third process")
	}
	l.fresh("c")
	l.pass(2 * aMoment)
	l.want("a b c", "1: a, b, c")
}

// TestOnlyARenewedRecordIsSaidToBeOfALivingMesh: the last renewal may be of long ago.
func TestOnlyARenewedRecordIsSaidToBeOfALivingMesh(t *testing.T) {
	l := registerLab(t, 3)
	l.register.record = otherMesh()
	l.fresh("a b c")
	for _, want := range []string{"the register names an earlier mesh", "and that mesh is alive"} {
		l.pass(registerTerm / 4)
		if text := l.units["a"].m.Status(l.now).Change; !strings.Contains(text, want) {
			t.Errorf("a waits for %q, want %q", text, want)
		}
		l.register.record.Renewal++
	}
}

// TestAVoterWithAnotherRegisterWritesNothing: it finds no record of the mesh that it has joined,
// and a record that it made would let a second mesh be founded.
func TestAVoterWithAnotherRegisterWritesNothing(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	m := l.units["a"].m
	m.now = l.now
	m.register = registration{}
	m.registerShows(vote.RegisterRecord{})
	if call, _ := m.nextCall(); call.Store {
		t.Errorf("a writes %+v", call.New)
	}
	m.now.Slow = m.now.Slow.Add(SettleAfter(maxTTL))
	if text := m.registerTrouble(); !strings.Contains(text, "has no record of this mesh") {
		t.Errorf("the trouble is %q", text)
	}
}
