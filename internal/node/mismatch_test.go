package node

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// A process with a voter that counted meets an older live process of the same name, and withdraws:
// its voter tells all nodes that its promises are void, its own leases are lost, and an alarm is
// raised.
func TestANodeGivesWayToAnOlderProcessOfItsName(t *testing.T) {
	m := awake(t, 3)
	mine := m.lock("a", "mine", false)
	m.want("a", mine, quorum.EventGranted)
	m.talk, m.events["a"] = nil, nil
	a := m.nodes["a"]
	if s := a.Account(m.now).Standing; s != vote.StandingCounting {
		t.Fatalf("a's standing is %v before", s)
	}
	a.Met(m.now, &vote.Sighting{
		Peer:    vote.SessionID{Node: "a", Incarnation: 99},
		Terms:   vote.Terms{Voters: m.voters, MaxTTL: ttl},
		Account: vote.Account{Standing: vote.StandingCounting, Up: 100 * ttl, Addr: "10.0.0.9:7700"},
	})
	m.run()
	for _, to := range []string{"a>b refused", "a>c refused"} {
		if !strings.Contains(strings.Join(m.talk, "\n"), to) {
			t.Errorf("%q is missing: those who hold its promises aren't told: %q", to, m.talk)
		}
	}
	lost, alarm := false, false
	for _, e := range m.events["a"] {
		lost = lost || e.Kind == quorum.EventLost
		alarm = alarm || e.Kind == quorum.EventAlarm && strings.Contains(e.Text, "this process withdraws")
	}
	if !lost || !alarm {
		t.Errorf("lease lost: %v, operator told: %v; both should be", lost, alarm)
	}
	if a.LinkRefusal() == "" || a.Quiet() == 0 {
		t.Error("its voter goes on")
	}
}

// A young voter has met a majority of another configuration, which counts. After the goodbyes of
// two of these voters, the node shows for how much longer its own voter waits for their leases.
func TestANodeShowsHowLongAnotherConfigurationHoldsItsVoter(t *testing.T) {
	m := newMesh(t, 3)
	a := m.nodes["a"]
	meet := func(name vote.NodeID, s vote.Standing) {
		a.Met(m.now, &vote.Sighting{
			Peer:    vote.SessionID{Node: name, Incarnation: 99},
			Terms:   vote.Terms{Voters: []vote.NodeID{"x", "y", "z"}, MaxTTL: ttl},
			Account: vote.Account{Standing: s, Counted: 100 * ttl, Up: 100 * ttl},
		})
	}
	want := func(d time.Duration, when string) {
		t.Helper()
		if got := a.HeldFor(m.now); got != d {
			t.Errorf("%s: the voter waits for another %v, want %v", when, got, d)
		}
	}
	want(0, "before")
	for _, name := range []vote.NodeID{"x", "y", "z"} {
		meet(name, vote.StandingCounting)
	}
	want(0, "with no end known")
	meet("x", vote.StandingLeaving)
	meet("y", vote.StandingLeaving)
	want(ttl, "without a majority of the others")
	m.pass(ttl / 4)
	want(ttl*3/4, "later")
}

// The account of a voter that has just started describes a voter without votes that count yet; the
// account of a node without a seat describes no voter. Other nodes hold back for the voter only.
func TestOnlyAVotersAccountIsThatOfAVoter(t *testing.T) {
	f := newDynamicMesh(t, "a b c")
	f.up("a b c", true)
	f.wait(3 * ttl)
	f.goBy("a b c", "1: a b c")
	f.up("b", false) // restarted: by its directory b is a voter
	if s := f.nodes["b"].Account(f.now).Standing; s != vote.StandingQuiet {
		t.Errorf("the standing of a voter that has just started is %v", s)
	}
	f.up("d", false)
	if s := f.nodes["d"].Account(f.now).Standing; s != vote.StandingNone {
		t.Errorf("the standing of a node that isn't in the electorate is %v", s)
	}
}

// While two live processes have the same name, neither can be sure to be the voter. So a voter
// promises nothing for a maximum TTL after a report that its name is taken, and then counts again.
func TestAVoterWhoseNameIsTakenWithdraws(t *testing.T) {
	m := awake(t, 3)
	a := m.nodes["a"]
	if a.Quiet() != 0 {
		t.Fatal("a's voter doesn't count before")
	}
	var stream vote.Stream
	m.twist = func(from, to vote.NodeID, msg *vote.Message) {
		if from == "a" && to == "b" && msg.Kind == vote.KindRefresh {
			stream = msg.Stream
		}
	}
	for stream == 0 {
		m.pass(ttl / 10)
	}
	for c, l := range m.conns {
		if l == (link{"a", "b"}) {
			a.Deliver(m.at("a"), c, vote.SessionID{Node: "b", Incarnation: m.incarnations["b"]}, &vote.Message{
				Kind: vote.KindRefused, Stream: stream, Reason: vote.ReasonNameTaken,
			})
			break
		}
	}
	if q := a.Quiet(); q != ttl {
		t.Errorf("a's voter is quiet for another %v, not for a maximum TTL", q)
	}
	m.run()
	for range 30 {
		m.pass(ttl / 20)
	}
	if q := a.Quiet(); q != 0 {
		t.Errorf("a's voter is quiet for another %v though a maximum TTL is over", q)
	}
}
