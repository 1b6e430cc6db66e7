package electorate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const registerTerm = 20 * maxTTL

// register is the register of a lab. It answers at once, after all messages.
type register struct {
	record vote.RegisterRecord
	calls  []registerCall
	stores int
	down   string // why calls fail
	// deaf are the processes that don't reach the register.
	deaf []vote.NodeID
	// mute: stores are carried out, and their answers are lost.
	mute bool
	// hold is a process whose answers wait.
	hold  vote.NodeID
	waits []func()
	// intrude is done once, between a process's load and its next store.
	intrude func()
}

type registerCall struct {
	from vote.SessionID
	vote.RegisterCall
}

// answer carries out the oldest call.
func (l *lab) answer() {
	r := &l.register
	c := r.calls[0]
	r.calls = r.calls[1:]
	u := l.units[c.from.Node]
	if c.Store && r.intrude != nil {
		r.intrude()
		r.intrude = nil
	}
	var result vote.RegisterResult
	switch deaf := slices.Contains(r.deaf, c.from.Node); {
	case r.down != "" || deaf:
		result.Failed = "no route to the register"
	case !c.Store:
		result.Record = r.record
	case c.Old != r.record:
		result.Changed = true
	default:
		r.record = c.New
		r.stores++
		if r.mute {
			result.Failed = "the answer was lost"
		}
	}
	arrive := func() {
		if u.m != nil && u.self == c.from {
			l.stand(u).Registered(l.now, result)
			l.collect(u)
		}
	}
	if c.from.Node == r.hold {
		r.waits = append(r.waits, arrive)
		return
	}
	arrive()
}

// registerLab is a lab of processes that expect a number of them, and have a register.
func registerLab(t *testing.T, expect int) *lab {
	l := countLab(t, expect)
	l.cfg.RegisterTerm = registerTerm
	return l
}

// counting returns the processes whose votes may count, by the register.
func (l *lab) counting() string {
	var all []string
	for _, name := range l.names {
		if u := l.units[name]; u.m != nil && u.m.Counts() > l.now.Fast {
			all = append(all, string(name))
		}
	}
	return strings.Join(all, " ")
}

func (l *lab) wantCounting(want string) {
	l.t.Helper()
	if got := l.counting(); got != want {
		l.t.Fatalf("the votes of %q may count, want %q; the register has %+v", got, want, l.register.record)
	}
}

func TestFoundersAreNamedByTheRegister(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c d")
	l.pass(2 * aMoment)
	l.want("a b c d", "1: a, b, c")
	l.wantCounting("a b c")
	if r := l.register.record; r.Lineage != l.units["a"].m.Known().Lineage || r.Mesh != "m" || r.Term != registerTerm {
		t.Errorf("the register has %+v", r)
	}
	l.pass(10 * registerTerm)
	l.wantCounting("a b c")
	// Each of three voters stores three times a term; more often only after it has met another.
	if n := l.register.stores; n < 75 || n > 150 {
		t.Errorf("%d stores in ten terms", n)
	}
	for _, name := range l.names {
		if alarms := l.units[name].alarms; len(alarms) > 0 {
			t.Errorf("%s says %q", name, alarms)
		}
	}
}

// A founder goes by its pledge only once the register names it.
func TestNothingIsFoundedWithoutTheRegister(t *testing.T) {
	l := registerLab(t, 3)
	l.register.down = "down"
	l.fresh("a b c")
	l.pass(20 * maxTTL)
	l.want("a b c", "none")
	if text := l.units["a"].m.Status(l.now); !strings.Contains(text.Change, "no route to the register") || !strings.Contains(text.Trouble, "no route to the register") {
		t.Errorf("%+v", text)
	}
	l.register.down = ""
	l.pass(2 * aMoment)
	l.want("a b c", "1: a, b, c")
	l.wantCounting("a b c")
}

// A process that doesn't reach the register takes no part in a birth, which needn't wait for it, and
// isn't voted in.
func TestAProcessThatDoesntReachTheRegisterDoesntVote(t *testing.T) {
	l := registerLab(t, 3)
	l.register.deaf = nodes("a")
	l.fresh("a b c d")
	l.pass(2 * aMoment)
	l.want("a b c d", "1: b, c, d")
	l.fresh("e")
	l.stop("d")
	l.pass(20 * maxTTL)
	if got := namesOf(l.units["b"].m.Known()); !slices.Equal(got, []string{"b", "c", "e"}) {
		t.Errorf("the voters are %v", got)
	}
	l.wantCounting("b c e")
}

// Two parts of a fleet that never hear of each other would each found a mesh. The register names one
// of them.
func TestOfTwoFoundingsTheRegisterNamesOne(t *testing.T) {
	l := registerLab(t, 3)
	part := func(n vote.NodeID) bool { return n < "d" }
	l.lose = func(m letter) bool { return part(m.from) != part(m.to) }
	l.fresh("a b c d e f")
	for n, s := range l.seen {
		s.State = Failed // gossip doesn't reach the other part either: nobody waits for an answer
		l.seen[n] = s
	}
	l.gossip()
	l.pass(20 * maxTTL)
	l.want("a b c", "1: a, b, c")
	l.want("d e f", "none")
	l.wantCounting("a b c")
	if text := l.units["d"].m.Status(l.now).Change; !strings.Contains(text, "the register names an earlier mesh") {
		t.Error(text)
	}
}

// The record of a mesh that has ended stands for a term, by the clock of each process.
func TestTheNextMeshWaitsForATerm(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	first := l.units["a"].m.Known().Lineage
	l.stop("a b c")
	l.pass(5 * registerTerm) // no process watches the record meanwhile
	l.fresh("d e f")
	l.pass(registerTerm)
	l.want("d e f", "none")
	if l.register.record.Lineage != first {
		t.Fatal("the register was taken over within a term")
	}
	l.pass(vote.Drift(registerTerm) + 2*time.Second)
	l.want("d e f", "1: d, e, f")
	l.wantCounting("d e f")
}

// A voter's votes count for a term after it began its last store, and not longer.
func TestVotesEndWithTheirTerm(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.register.down = "down"
	l.pass(registerTerm / 2)
	l.wantCounting("a b c")
	if text := l.units["a"].m.Status(l.now).Trouble; !strings.Contains(text, "votes count for another") {
		t.Error(text)
	}
	l.pass(registerTerm / 2)
	l.wantCounting("")
	u := l.units["a"]
	if text := u.m.Status(l.now).Trouble; !strings.Contains(text, "Votes of this process don't count") {
		t.Error(text)
	}
	if len(u.alarms) != 1 || !strings.Contains(u.alarms[0], "no route to the register") {
		t.Errorf("%q", u.alarms)
	}
	l.want("a b c", "1: a, b, c")
	l.register.down = ""
	l.pass(2 * time.Second)
	l.wantCounting("a b c")
}

// A voter that hears nothing of the end of its mesh has stopped before the next mesh is founded.
func TestNoVoteOfTheEarlierMeshCountsAtTheFoundingOfTheNext(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	first := l.register.record.Lineage
	part := func(n vote.NodeID) bool { return n < "d" }
	l.lose = func(m letter) bool { return part(m.from) != part(m.to) }
	l.register.deaf = nodes("a b c")
	l.fresh("d e f")
	for n, s := range l.seen {
		s.State = Failed
		l.seen[n] = s
	}
	l.gossip()
	for range 300 {
		l.pass(registerTerm / 200)
		if l.register.record.Lineage != first {
			break
		}
	}
	if l.register.record.Lineage == first {
		t.Fatal("no other mesh was founded")
	}
	if got := l.counting(); strings.ContainsAny(got, "abc") {
		t.Fatalf("the votes of %s may count at the founding of the next mesh", got)
	}
	l.pass(aMoment)
	l.want("a b c", "1: a, b, c") // they know of nothing
	l.want("d e f", "1: d, e, f")
	l.register.deaf = nil
	l.pass(5 * time.Second)
	for _, name := range nodes("a b c") {
		if e := l.units[name].m.Known(); e.Version != 0 {
			t.Errorf("%s stays with %+v", name, e)
		}
	}
	if a := l.units["a"].alarms; len(a) == 0 || !strings.Contains(a[len(a)-1], "gives up its electorate") {
		t.Errorf("a says %q", a)
	}
	l.lose = nil
	for n, s := range l.seen {
		s.State = Alive
		l.seen[n] = s
	}
	l.gossip()
	l.pass(20 * maxTTL)
	l.oneMesh()
}

// The answer to a store may be lost. Then the founder finds its own name in the register.
func TestAFounderWhoseAnswerWasLostFindsItsMesh(t *testing.T) {
	l := registerLab(t, 3)
	l.register.mute = true
	l.fresh("a b c")
	l.pass(aMoment)
	l.want("a b c", "1: a, b, c")
	l.wantCounting("") // a store without an answer proves nothing
	l.register.mute = false
	l.pass(2 * time.Second)
	l.wantCounting("a b c")
}

// Between the load and the store of a founder, others may have founded.
func TestAFoundingThatComesTooLateIsUndone(t *testing.T) {
	l := registerLab(t, 3)
	l.register.intrude = func() {
		l.register.record = vote.RegisterRecord{Mesh: "m", Lineage: 77, Term: registerTerm, Renewal: 5, Writer: vote.Elector{Name: "x", Dir: 9}}
	}
	l.fresh("a b c")
	l.pass(aMoment)
	l.want("a b c", "none")
	l.pass(registerPatience)
	l.want("a b c", "none")
	l.pass(registerTerm)
	l.want("a b c", "1: a, b, c")
}

// A record of another mesh's name is never replaced.
func TestARegisterOfAnotherMeshIsLeftAlone(t *testing.T) {
	l := registerLab(t, 3)
	other := vote.RegisterRecord{Mesh: "other", Lineage: 77, Term: time.Second, Renewal: 5, Writer: vote.Elector{Name: "x", Dir: 9}}
	l.register.record = other
	l.fresh("a b c")
	l.pass(20 * registerTerm)
	l.want("a b c", "none")
	if l.register.record != other {
		t.Errorf("the register has %+v", l.register.record)
	}
	if text := l.units["a"].m.Status(l.now).Change; !strings.Contains(text, `in use by the mesh "other"`) {
		t.Error(text)
	}
}

// A record that was deleted is written again by the mesh that it named.
func TestADeletedRecordIsWrittenAgain(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	was := l.register.record.Lineage
	l.register.record = vote.RegisterRecord{}
	l.pass(registerTerm)
	if l.register.record.Lineage != was {
		t.Errorf("the register has %+v", l.register.record)
	}
	l.wantCounting("a b c")
}

// The term of a mesh is the one that it began with: voters configured with another rely on the
// record, and so do those that wait for its end.
func TestTheTermIsThatOfTheRecord(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.cfg.RegisterTerm = registerTerm / 4
	l.fresh("d")
	l.pass(3 * maxTTL)
	l.stop("a")
	l.pass(20 * maxTTL)
	l.wantCounting("b c d")
	if r := l.register.record; r.Term != registerTerm {
		t.Errorf("the register has %+v", r)
	}
	l.stop("b c d")
	l.fresh("e f g")
	l.pass(registerTerm)
	l.want("e f g", "none")
	l.pass(2 * aMoment)
	l.want("e f g", "1: e, f, g")
	if r := l.register.record; r.Term != registerTerm/4 {
		t.Errorf("the register has %+v", r)
	}
}

// Without a majority a mesh doesn't keep the register, so the next can be founded.
func TestAMeshWithoutAMajorityDoesntKeepTheRegister(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	first := l.register.record.Lineage
	l.stop("b c")
	l.fresh("d e")
	// The survivor gives up only later than that.
	l.pass(registerTerm + vote.Drift(registerTerm) + aMoment)
	if l.register.record.Lineage == first {
		t.Fatalf("the register has %+v", l.register.record)
	}
	l.pass(aMoment)
	l.want("a d e", "1: a, d, e")
}

// An answer that comes late doesn't make a term longer: it began with the call.
func TestATermBeginsWithItsCall(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	u := l.units["a"]
	l.register.hold = "a"
	for len(l.register.waits) == 0 || l.register.record.Writer.Name != "a" {
		for _, arrive := range l.register.waits { // not of a store that was done
			arrive()
		}
		l.register.waits = nil
		l.pass(100 * time.Millisecond)
	}
	began := u.m.register.began.Fast
	l.pass(3 * time.Second)
	l.register.waits[0]()
	if got, want := u.m.Counts(), began.Add(registerTerm); got != want {
		t.Errorf("votes count until %v after the call, want %v", got.Sub(began), want.Sub(began))
	}
}
