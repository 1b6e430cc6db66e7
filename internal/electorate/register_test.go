package electorate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

const registerTerm = 20 * maxTTL

// register is the register of a lab. Calls are answered at once, after all messages.
type register struct {
	record vote.RegisterRecord
	calls  []registerCall
	stores int
	down   string // not empty: all calls fail
	// deaf are the processes without access to the register.
	deaf []vote.NodeID
	// readers may load, and not store.
	readers []vote.NodeID
	// old is returned by loads instead of the record; nil: the record.
	old *vote.RegisterRecord
	// mute: stores are carried out, and their answers are lost.
	mute bool
	// hold is a process; the answers to its calls wait.
	hold  vote.NodeID
	waits []func()
	// intrude is called once, between a process's load and its next store.
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
	case !c.Store && r.old != nil:
		result.Record = *r.old
	case !c.Store:
		result.Record = r.record
	case slices.Contains(r.readers, c.from.Node):
		result.Failed = "forbidden"
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
			l.setOwnVoter(u).Registered(l.now, result)
			l.collect(u)
		}
	}
	if c.from.Node == r.hold {
		r.waits = append(r.waits, arrive)
		return
	}
	arrive()
}

// registerLab returns a lab of processes with a register, each configured with Expect.
func registerLab(t *testing.T, expect int) *lab {
	l := countLab(t, expect)
	l.cfg.RegisterTerm = registerTerm
	return l
}

// see has gossip report all processes in the same state: as failed, as if gossip reached no
// process, or as alive. No process waits for the answer of a failed process.
func (l *lab) see(state vote.Presence) {
	for n, s := range l.seen {
		s.State = state
		l.seen[n] = s
	}
	l.gossip()
}

// counting returns the processes with votes that may count, by the register.
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
	sampled.Computes(t)
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
	// Each of three voters stores three times a term; more often only after a conflict with another
	// voter's store.
	if n := l.register.stores; n < 75 || n > 150 {
		t.Errorf("%d stores in ten terms", n)
	}
	for _, name := range l.names {
		if alarms := l.units[name].alarms; len(alarms) > 0 {
			t.Errorf("%s says %q", name, alarms)
		}
	}
}

// A founder applies its pledge only once the register names the mesh.
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

// A process without access to the register takes no part in a birth, doesn't delay the birth, and
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

// Two parts of a fleet without contact would each found a mesh. The register names a single mesh.
func TestOfTwoFoundingsTheRegisterNamesOne(t *testing.T) {
	l := registerLab(t, 3)
	part := func(n vote.NodeID) bool { return n < "d" }
	l.lose = func(m letter) bool { return part(m.from) != part(m.to) }
	l.fresh("a b c d e f")
	l.see(vote.Failed)
	l.pass(20 * maxTTL)
	l.want("a b c", "1: a, b, c")
	l.want("d e f", "none")
	l.wantCounting("a b c")
	if text := l.units["d"].m.Status(l.now).Change; !strings.Contains(text, "the register names another mesh, and that mesh is alive") {
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
	l.pass(vote.Drift(registerTerm) + aMoment)
	l.want("d e f", "1: d, e, f")
	l.wantCounting("d e f")
}

// A voter's votes count for a term from the beginning of its last store, and not longer.
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

// The votes of a voter that doesn't learn of the end of its mesh have stopped counting before the
// next mesh is founded.
func TestNoVoteOfTheEarlierMeshCountsAtTheFoundingOfTheNext(t *testing.T) {
	sampled.Computes(t)
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	first := l.register.record.Lineage
	part := func(n vote.NodeID) bool { return n < "d" }
	l.lose = func(m letter) bool { return part(m.from) != part(m.to) }
	l.register.deaf = nodes("a b c")
	l.fresh("d e f")
	l.see(vote.Failed)
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
	l.want("a b c", "1: a, b, c") // a, b and c haven't noticed
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
	l.see(vote.Alive)
	l.pass(20 * maxTTL)
	l.oneMesh()
}

// The answer to a store may be lost. Then the founder finds its own mesh in the register.
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

// Another mesh may be founded between the load and the store of a founder.
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

// A record with another mesh's name is never replaced.
func TestARegisterOfAnotherMeshIsLeftAlone(t *testing.T) {
	sampled.Computes(t)
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

// A record with another mesh's name founds nothing here, whatever its lineage: the founders here
// may have no register at all.
func TestARecordOfAnotherMeshFoundsNothing(t *testing.T) {
	l := registerLab(t, 3)
	l.lose = unfinished
	l.fresh("a b c")
	l.pass(aMoment)
	pledge := l.units["a"].m.stored.Pledge
	if len(pledge) != 3 {
		t.Fatalf("a has pledged to %v", pledge)
	}
	l.register.record = vote.RegisterRecord{
		Mesh: "other", Lineage: lineage(pledge), Term: registerTerm, Renewal: 5, Writer: vote.Elector{Name: "x", Dir: 9},
	}
	l.pass(2 * time.Second)
	if r := &l.units["a"].m.register; !r.known || r.record != l.register.record {
		t.Fatalf("a knows the record %+v", r.record)
	}
	l.want("a b c", "none")
}

// A deleted record is written again by the mesh named in the record.
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

// The term of a mesh is the term with which the mesh began: voters configured with another term
// rely on the record, and so do processes that wait for its end.
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

// Without a majority a mesh doesn't keep the register, so the next mesh can be founded.
func TestAMeshWithoutAMajorityDoesntKeepTheRegister(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	first := l.register.record.Lineage
	l.stop("b c")
	l.fresh("d e")
	// The survivor gives up only later.
	l.pass(registerTerm + vote.Drift(registerTerm) + aMoment)
	if l.register.record.Lineage == first {
		t.Fatalf("the register has %+v", l.register.record)
	}
	l.pass(aMoment)
	l.want("a d e", "1: a, d, e")
}

// A late answer doesn't extend a term: the term began with the call.
func TestATermBeginsWithItsCall(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	u := l.units["a"]
	l.register.hold = "a"
	for len(l.register.waits) == 0 || l.register.record.Writer.Name != "a" {
		// No answer to a completed store is among the held answers.
		for _, arrive := range l.register.waits {
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

// A voter that can load and not store loses its seat, and such a process isn't voted in.
func TestAProcessThatCantStoreLosesItsSeat(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.register.readers = nodes("b")
	l.fresh("d")
	l.pass(2*registerTerm + 10*maxTTL)
	l.wantCounting("a c d")
	if text := l.units["b"].m.Status(l.now).Trouble; text != "" && !strings.Contains(text, "forbidden") {
		t.Error(text)
	}
	if e := l.units["a"].m.Known(); e.Names("b") {
		t.Errorf("the voters are %v", namesOf(e))
	}
}

// The lowest process can't store, so the next process founds the mesh, with or without the lowest.
func TestAFounderThatCantStoreDoesntKeepTheOthers(t *testing.T) {
	l := registerLab(t, 3)
	l.register.readers = nodes("a")
	l.fresh("a b c")
	l.pass(registerPatience)
	l.want("a b c", "1: a, b, c")
	l.wantCounting("b c")
}

// A process that came later, and has watched the record for too short a time, doesn't delay the
// others, though its name is lower.
func TestALateComerDoesntKeepTheOthers(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.stop("a b c")
	l.fresh("e f g")
	l.pass(registerTerm - 2*time.Second)
	l.fresh("d")
	l.pass(2*time.Second + vote.Drift(registerTerm) + 2*birthMargin + 2*nextFounderAfter)
	l.want("d e f g", "1: e, f, g")
}

// Voters that reach each other and not the register don't keep processes with access to the
// register from founding the next mesh.
func TestAMeshThatCantUseTheRegisterGivesUpForOthers(t *testing.T) {
	sampled.Computes(t)
	l := registerLab(t, 3)
	l.fresh("a b c d")
	l.pass(2 * aMoment)
	l.register.deaf = nodes("a b c")
	l.fresh("e f")
	l.pass(3 * registerTerm)
	l.want("d e f", "1: d, e, f")
	l.wantCounting("d e f")
	for _, name := range nodes("a b c") {
		if all := strings.Join(l.units[name].alarms, "; "); !strings.Contains(all, "have been within reach and able to use the register") {
			t.Errorf("%s gives up its electorate, and the operator hears %q", name, all)
		}
	}
	// If no process can use the register, all wait for the register.
	l = registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.register.deaf = nodes("a b c")
	l.pass(5 * registerTerm)
	l.want("a b c", "1: a, b, c")
}

// A former voter that lives on has no term any more.
func TestAFormerVoterHasNoTerm(t *testing.T) {
	l := registerLab(t, 3)
	l.cfg.MaxVoters = 3
	l.fresh("a b c d")
	l.pass(2*aMoment + 5*maxTTL)
	u := l.units["a"]
	if err := l.setOwnVoter(u).Propose(l.now, []vote.Elector{l.units["b"].m.Elector(), l.units["c"].m.Elector(), l.units["d"].m.Elector()}); err != nil {
		t.Fatal(err)
	}
	l.collect(u)
	l.run()
	l.pass(4 * maxTTL)
	if u.m.Votes() || u.m.Counts() != 0 {
		t.Fatalf("a votes: %v, until %v", u.m.Votes(), u.m.Counts())
	}
	l.pass(2 * registerTerm)
	if len(u.alarms) != 0 {
		t.Errorf("%q", u.alarms)
	}
}

// The fast clock may leap, as after a suspension: then a voter stores at once.
func TestAVoterStoresWhenItsTermIsNearlyOver(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.now.Fast = l.now.Fast.Add(registerTerm)
	l.pass(3 * time.Second)
	l.wantCounting("a b c")
	if a := l.units["a"].alarms; len(a) != 0 {
		t.Errorf("%q", a)
	}
}

// After a single failed call, a process calls again soon.
func TestACallThatFailedIsRepeatedSoon(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.register.deaf = nodes("d")
	l.fresh("d")
	l.pass(0)
	l.register.deaf = nil
	l.pass(2 * retryAfter(registerTerm))
	if text := l.units["d"].m.Status(l.now).Trouble; text != "" {
		t.Error(text)
	}
}

// A load may be answered from a stale copy.
func TestAStaleLoadEndsNoMesh(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	old := l.register.record
	l.stop("a b c")
	l.fresh("d e f")
	l.pass(registerTerm + vote.Drift(registerTerm) + aMoment)
	l.want("d e f", "1: d, e, f")
	l.register.old = &old
	l.units["d"].m.register.known = false
	l.pass(registerTerm / 2)
	l.want("d e f", "1: d, e, f")
	l.register.old = nil
	l.pass(registerTerm / 2)
	l.wantCounting("d e f")
}

// A stale load that names another mesh delays nothing: a newer record of another mesh ends this
// process's mesh at once.
func TestANewerRecordEndsAMeshAtOnceAfterAStaleLoad(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	m, ours := l.units["a"].m, l.register.record
	other := vote.RegisterRecord{Mesh: "m", Lineage: 77, Term: registerTerm, MaxTTL: maxTTL, Renewal: ours.Renewal - 1, Writer: vote.Elector{Name: "x", Dir: 9}}
	m.now = l.now
	m.registerShows(ours)
	m.registerShows(other)
	if m.state.Electorate.Version == 0 || m.register.superseded == 0 {
		t.Fatal("a stale load has ended the mesh, or wasn't noted")
	}
	other.Renewal = m.register.newest + 1
	m.registerShows(other)
	if m.state.Electorate.Version != 0 {
		t.Error("the process keeps the electorate of a mesh that the register no longer names")
	}
}

// A mesh with a larger maximum TTL has leases for longer after its last term.
func TestTheWaitCoversTheLeasesOfALargerMaxTTL(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.stop("a b c")
	l.cfg.MaxTTL = maxTTL / 4
	l.fresh("d e f")
	stands := registerTerm + maxTTL - l.cfg.MaxTTL
	l.pass(stands)
	l.want("d e f", "none")
	l.pass(vote.Drift(stands) + aMoment)
	l.want("d e f", "1: d, e, f")
	if r := l.register.record; r.MaxTTL != l.cfg.MaxTTL {
		t.Errorf("%+v", r)
	}
}

// A call that never ends is reported as trouble.
func TestACallThatNeverEndsIsTrouble(t *testing.T) {
	l := registerLab(t, 3)
	l.register.hold = "a"
	l.fresh("a b c d")
	l.pass(overdueAfter + time.Second)
	if text := l.units["a"].m.Status(l.now).Trouble; !strings.Contains(text, "a call has been under way for 21s") {
		t.Error(text)
	}
}

// A successful load doesn't hide failing stores: while the next store is under way, the process
// still reports the trouble.
func TestALoadDoesntHideThatStoresFail(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.register.readers = nodes("b")
	l.pass(registerTerm)
	u := l.units["b"]
	l.register.hold = "b"
	for range 100 {
		l.pass(100 * time.Millisecond)
		if len(l.register.waits) == 0 {
			continue
		}
		arrive, store := l.register.waits[0], u.m.register.call.Store
		l.register.waits = nil
		arrive()
		if !store {
			break // the load has returned the record, and a store is under way
		}
	}
	if !u.m.register.calling || !u.m.register.call.Store {
		t.Fatalf("%+v", u.m.register)
	}
	if text := u.m.Status(l.now).Trouble; !strings.Contains(text, "forbidden") {
		t.Errorf("%q", text)
	}
}

// A fresh process that learns of a mesh no longer named by the register doesn't join the mesh.
func TestAMeshThatHasEndedIsntJoined(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.register.deaf = nodes("a b c")
	ended := func(n vote.NodeID) bool { return n < "d" }
	l.lose = func(m letter) bool { return ended(m.from) != ended(m.to) && m.from != "g" && m.to != "g" }
	l.register.record = vote.RegisterRecord{Mesh: "m", Lineage: 77, Term: registerTerm, MaxTTL: maxTTL, Renewal: 50, Writer: vote.Elector{Name: "x", Dir: 9}}
	l.fresh("g")
	l.pass(5 * maxTTL)
	l.want("a", "1: a, b, c")
	l.want("g", "none")
}

// Stores fail for a while, just when a mesh is to be founded. The mesh is founded soon after.
func TestAShortOutageOfStoresDelaysABirthForASecondOrSo(t *testing.T) {
	l := registerLab(t, 3)
	l.cfg.RegisterTerm = 10 * time.Minute
	l.register.readers = nodes("a b c")
	l.fresh("a b c")
	l.pass(20 * time.Second)
	l.want("a b c", "none")
	l.register.readers = nil
	l.pass(2*registerPatience + 10*time.Second)
	l.want("a b c", "1: a, b, c")
	l.wantCounting("a b c")
}

// Only one of the voters can use the register, beside processes on standby that could found the
// next mesh. This voter doesn't keep the record, so another mesh is founded within two terms.
func TestAVoterDoesntKeepTheRecordOfABarrenMesh(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	first := l.register.record.Lineage
	l.register.deaf = nodes("a b")
	l.pass(registerTerm) // the votes of a and b have ended
	l.fresh("d e")
	l.pass(registerTerm + 10*time.Second)
	if l.register.record.Lineage == first {
		t.Fatalf("the register still has %+v", l.register.record)
	}
	l.wantCounting("c d e")
	// If only a single process can use the register, the mesh waits for the others.
	l = registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	first = l.register.record.Lineage
	l.register.deaf = nodes("a b")
	l.pass(3 * registerTerm)
	l.register.deaf = nil
	l.pass(3 * time.Second)
	l.wantCounting("a b c")
	if l.register.record.Lineage != first {
		t.Errorf("the register has %+v", l.register.record)
	}
}

// A process on standby without access to the register can't take the place of a voter.
func TestAStandbyWithoutTheRegisterIsntSettled(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	l.register.deaf = nodes("d")
	l.fresh("d")
	l.pass(5 * maxTTL)
	if text := l.units["d"].m.Unsettled(l.now); !strings.Contains(text, "no route to the register") {
		t.Errorf("%q", text)
	}
	l.register.deaf = nil
	l.pass(5 * maxTTL)
	if text := l.units["d"].m.Unsettled(l.now); text != "" {
		t.Error(text)
	}
}

// A process without a majority renews no record: the mesh may have ended, and another must be
// founded in time.
func TestAProcessWithoutAMajorityDoesNotKeepTheRegister(t *testing.T) {
	l := registerLab(t, 3)
	l.fresh("a b c")
	l.pass(2 * aMoment)
	a := l.units["a"].m
	for {
		call, at := a.nextCall()
		if left := at.Sub(l.now.Slow); call.Store && left < 3*maxTTL {
			break
		}
		l.pass(maxTTL)
	}
	l.stop("b c")
	l.pass(maxTTL) // until a has noticed
	record := l.register.record
	l.pass(4 * maxTTL)
	if l.register.record != record {
		t.Errorf("the register has %+v, and had %+v", l.register.record, record)
	}
	if a.Known().Version == 0 {
		t.Fatal("the process has given up its electorate, so the test shows nothing")
	}
}

// TestAProcessIsBarredWhileTheRegisterLetsNoMeshBeBorn: other processes that accept such a process
// are no evidence that it has the right secret.
func TestAProcessIsBarredWhileTheRegisterLetsNoMeshBeBorn(t *testing.T) {
	l := registerLab(t, 3)
	l.register.record = vote.RegisterRecord{
		Mesh: "m", Lineage: 77, Term: registerTerm, MaxTTL: maxTTL, Renewal: 5, Writer: vote.Elector{Name: "x", Dir: 9},
	}
	l.fresh("a b c")
	wantBarred := func(want bool) {
		t.Helper()
		if is := l.units["a"].m.IsBarred(); is != want {
			t.Fatalf("barred: %t; a waits for %q", is, l.units["a"].m.Status(l.now).Change)
		}
	}
	wantAlive := func(want bool, when string) {
		t.Helper()
		if may := l.units["a"].m.MayMeshBeAlive(); may != want {
			t.Fatalf("%s: the mesh of the record may be alive: %t", when, may)
		}
	}
	wantBarred(true)
	wantAlive(true, "the register has not answered yet")
	l.pass(aMoment)
	wantBarred(true)
	wantAlive(true, "the record has been read only now")
	for range 4 {
		l.pass(registerTerm / 2)
		l.register.record.Renewal++
		wantBarred(true)
		wantAlive(true, "the record is being renewed")
	}
	l.want("a b c", "none")
	l.pass(registerTerm * 8 / 10) // a look at the record comes late by a sixth of a term
	wantBarred(true)
	wantAlive(false, "the record stands unchanged")
	l.register.down = "the server is gone"
	l.pass(registerTerm / 10)
	wantAlive(true, "the register can't be read")
	l.register.down = ""
	l.pass(2 * registerTerm)
	l.want("a b c", "1: a, b, c")
	wantBarred(false)
	l.register.down = "the server is gone"
	l.pass(registerTerm / 2)
	wantBarred(false) // a voter knows an electorate
}
