package elect

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestTheGenuineMachine exhausts small scopes of each kind.
func TestTheGenuineMachine(t *testing.T) {
	sampled.Computes(t)
	small, _ := Scopes()
	for i, scope := range small {
		if !sampled.Case(i, 2) {
			continue
		}
		o := scope.Options
		t.Run(scope.Name, func(t *testing.T) {
			t.Parallel()
			if sampled.Raced {
				o.MaxStates = 1000
			}
			r := run(t, o)
			t.Log(r)
			if r.Violation != nil {
				t.Fatal(r.Violation)
			}
			if !sampled.Raced && (!r.Exhausted || r.Joint == 0 || (r.Final == 0) != o.Mute) {
				t.Error("not exhausted, or nothing was decided")
			}
			if !sampled.Raced && o.Waits > 0 && (r.Back == 0 || r.Back == r.Final) {
				t.Error("the joint electorate wasn't ended in both ways")
			}
		})
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for _, row := range []struct {
		o    Options
		want string
	}{
		{Options{}, "0 proposals"},
		{Options{Propose: []string{"abc"}}, "a voter and its target"},
		{Options{Propose: []string{"d:abc"}}, "a voter and its target"},
		{Options{Propose: []string{"a:ba"}}, "in order"},
		{Options{Propose: []string{"a:abz"}}, "from a to e"},
		{Options{Propose: []string{"a:ab"}, Crashes: -1}, "negative"},
		{Options{Propose: []string{"a:ab"}, Idles: 3}, "1 drains and 3 idles"},
		{Options{Propose: []string{"a:ab"}, Conclude: []string{"a:bd"}}, "no node is called d"},
		{Options{Propose: []string{"a:ab"}, Drains: 3}, "3 drains"},
		{Options{Propose: []string{"a:ab"}, Crashes: 7}, "7 crashes"},
		{Options{Propose: []string{"a:ab"}, Waits: 2}, "2 waits"},
		{Options{Propose: []string{"a:ab"}, Waits: 1, Failures: 1}, "drop one"},
		{Options{Propose: []string{"a:ab"}, Crash: []string{"d"}}, "no node is called d"},
	} {
		if _, err := Run(row.o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want something with %q", row.o, err, row.want)
		}
	}
	o := Options{Propose: []string{"a:ab"}, Attempts: 1, MaxStates: 4000}
	if r := run(t, o); r.Exhausted || r.States < 4000 || !strings.Contains(r.String(), "not exhausted") {
		t.Errorf("with a limit of 4000 states: %v", r)
	}
	o.MaxStates, o.Stop = 0, func(p Progress) bool { return p.Depth == 7 && p.States > 0 && p.Waiting > 0 }
	if r := run(t, o); r.Exhausted || r.Depth != 7 {
		t.Errorf("stopped at depth 7: %v", r)
	}
}

func run(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mutants break one rule each. The genuine machine exhausts the same limits without a fault.
var mutants = []struct {
	how   mutation
	o     Options
	lossy bool
	want  string // part of the violation's text
}{
	{"a disk that loses what it said was stored", Options{Propose: []string{"a:ab", "b:ac"}, Conclude: []string{}, Mute: true, Crashes: 1, Crash: []string{"c"}}, true, "two electorates"},
	{"answers before the promise is stored", Options{Propose: []string{"a:ab"}, Conclude: []string{}, Mute: true}, false, "its disk doesn't have it"},
	{"numbers ballots by the directory", Options{
		Propose: []string{"a:ab", "a:abcd"}, Conclude: []string{}, Mute: true, Crashes: 1, Crash: []string{"a"},
	}, false, "two electorates"},
	{"accepts without comparing with its promise", Options{Propose: []string{"a:ab", "b:abcd"}, Conclude: []string{}, Mute: true}, false, "two electorates"},
	{"a proposer that ignores what was accepted", Options{Propose: []string{"a:ab", "b:abcd"}, Conclude: []string{}, Mute: true}, false, "two electorates"},
	{"an acceptor that isn't an old voter counts", bothEnds, false, "two electorates 3"},
	{"no drain", Options{Propose: []string{"a:ab"}, Conclude: []string{"a"}}, false, "before majorities of both halves"},
	{"a drain from when the node itself applies the joint electorate", Options{Propose: []string{"a:ab"}, Conclude: []string{"a"}}, false, "before majorities of both halves"},
	{"a drain from when half of the joint electorate applies it", Options{Propose: []string{"a:abcd"}, Conclude: []string{"a"}}, false, "before majorities of both halves"},
	{"a voter that applies what isn't stored", Options{Propose: []string{"a:ab"}, Conclude: []string{"a"}}, false, "before majorities of both halves"},
}

// bothEnds has a end the joint electorate by the new voters, while b, which receives no message of
// the new voters, has the electorate go back to the old voters.
var bothEnds = Options{Propose: []string{"a:ad"}, Begun: true, Waits: 1, Conclude: []string{"a:bd", "b:c"}, Attempts: 1}

// mutation names the rule that a machine breaks.
type mutation string

// TestMutantsAreFound demands that each mutant is found, by a shortest path.
func TestMutantsAreFound(t *testing.T) {
	sampled.Computes(t)
	for i, m := range mutants {
		if !sampled.Case(i, 2) {
			continue
		}
		t.Run(string(m.how), func(t *testing.T) {
			t.Parallel()
			o := m.o
			o.lossy = m.lossy
			o.lax = strings.HasPrefix(m.want, "two")
			if !m.lossy {
				o.Build = m.how.build
			}
			if sampled.Raced {
				o.MaxStates = 1000
			}
			r := run(t, o)
			t.Logf("depth %d, %d states: %v", r.Depth+1, r.States, r.Violation)
			if !(sampled.Raced && r.Violation == nil) && (r.Violation == nil || !strings.Contains(r.Violation.What, m.want)) {
				t.Errorf("found %v, want something with %q", r.Violation, m.want)
			}
		})
	}
}

// hungUp is a connection that doesn't exist: a held message for hungUp was sent before.
var hungUp = conn(0, true, 15)

// broken is a machine that breaks a rule.
type broken struct {
	Genuine
	How mutation
	New vote.Conn // to d, not an old voter
}

func (how mutation) build(cfg electorate.Config, state vote.DiskState, now vote.Now) Machine {
	if how == "numbers ballots by the directory" {
		cfg.Self.Incarnation = vote.Incarnation(state.Dir)
	}
	return &broken{Genuine: genuine(cfg, state, now).(Genuine), How: how}
}

func (b *broken) Link(now vote.Now, conn vote.Conn, peer vote.SessionID) {
	if peer.Node == "d" {
		b.New = conn
	}
	b.Machine.Link(now, conn, peer)
}

// part returns a field, or a field of a field, of the machine, to be changed.
func part[T any](b *broken, path ...string) *T {
	v := reflect.ValueOf(b.Machine).Elem()
	for _, name := range path {
		v = v.FieldByName(name)
	}
	return (*T)(unsafe.Pointer(v.UnsafeAddr()))
}

func (b *broken) Receive(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	msg := *m
	switch {
	case b.How == "accepts without comparing with its promise" && m.Kind == vote.KindAccept:
		*part[vote.Ballot](b, "state", "Promised") = vote.Ballot{}
	case b.How == "a proposer that ignores what was accepted" && m.Kind == vote.KindPrepared:
		e := *m.Consensus
		e.Accepted, e.Electorate = vote.Ballot{}, vote.Electorate{}
		msg.Consensus = &e
	case b.How == "an acceptor that isn't an old voter counts" && b.Known().Joint():
		// d answers as an old voter would, and the proposer takes d for c.
		if from.Node == "d" && (m.Kind == vote.KindPrepared || m.Kind == vote.KindAccepted) {
			e := *m.Consensus
			from.Node, e.Dir, msg.Consensus = "c", elector(2).Dir, &e
		}
		if b.Elector() == elector(3) && (m.Kind == vote.KindPrepare || m.Kind == vote.KindAccept) {
			at := part[vote.Electorate](b, "state", "Electorate")
			at.Old = append(slices.Clone(at.Old), b.Elector())
			b.Machine.Receive(now, conn, from, &msg)
			at.Old = at.Old[:len(at.Old)-1]
			return
		}
	}
	b.Machine.Receive(now, conn, from, &msg)
	b.drained(now)
}

func (b *broken) Saved(now vote.Now, writes uint64, failed string) {
	b.Machine.Saved(now, writes, failed)
	b.drained(now)
}

// drained has the drain begin too early, or end too early.
func (b *broken) drained(now vote.Now) {
	begun, since := part[bool](b, "drain", "begun"), part[vote.Instant](b, "drain", "since")
	e, seen := b.Known(), *part[[]vote.Elector](b, "drain", "seen")
	if !e.Joint() || !e.Has(b.Elector()) {
		return
	}
	sees := func(i int) bool { return slices.Contains(seen, elector(i)) }
	switch {
	case b.How == "no drain" && *begun:
		*since = now.Slow.Add(-electorate.Drain(ttl))
	case *begun:
		return
	case b.How == "a drain from when the node itself applies the joint electorate" && sees(int(b.Elector().Dir)-1),
		b.How == "a drain from when half of the joint electorate applies it" && most(e.Old, sees):
		*begun, *since = true, now.Slow
	default:
		return
	}
	b.Tick(now)
}

func (b *broken) Drain(out []vote.Outbound) []vote.Outbound {
	out = b.Machine.Drain(out)
	if b.How == "a voter that applies what isn't stored" {
		for i := range out {
			if out[i].Message.Kind == vote.KindReport {
				out[i].Message.Epoch = b.Known().Version
			}
		}
	}
	if b.How == "an acceptor that isn't an old voter counts" && b.Elector() == elector(0) {
		for _, o := range out { // a asks d, too
			if o.Conn == vote.LocalConn && (o.Message.Kind == vote.KindPrepare || o.Message.Kind == vote.KindAccept) {
				out = append(out, vote.Outbound{Conn: b.New, Message: o.Message})
			}
		}
	}
	held := reflect.ValueOf(b.Machine).Elem().FieldByName("deferred")
	for i := range held.Len() {
		at := held.Index(i)
		c, m := *(*vote.Conn)(unsafe.Pointer(at.FieldByName("conn").UnsafeAddr())), *(*vote.Message)(unsafe.Pointer(at.FieldByName("m").UnsafeAddr()))
		if c == hungUp {
			continue
		}
		if b.How == "answers before the promise is stored" {
			out = append(out, vote.Outbound{Conn: c, Message: m})
			*(*vote.Conn)(unsafe.Pointer(at.FieldByName("conn").UnsafeAddr())) = hungUp
		}
	}
	return out
}
