package node

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// A process whose voter counted meets an older live process of its name. It gives way: its voter tells
// everyone that what it has promised is void, its own leases are lost, and an operator hears of it.
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
	if a.Bars() == "" || a.Quiet() == 0 {
		t.Error("its voter goes on")
	}
}

// A voter that has just started tells others that it is a voter whose votes don't count yet, and a node
// without a seat in the electorate that it has no vote: others hold back for the first only.
func TestOnlyAVotersAccountIsThatOfAVoter(t *testing.T) {
	f := newFollowers(t, "a b c")
	f.up("a b c", true)
	f.wait(3 * ttl)
	f.goBy("a b c", "1: a b c")
	f.up("b", false) // anew: its directory says that it is a voter
	if s := f.nodes["b"].Account(f.now).Standing; s != vote.StandingQuiet {
		t.Errorf("the standing of a voter that has just started is %v", s)
	}
	f.up("d", false)
	if s := f.nodes["d"].Account(f.now).Standing; s != vote.StandingNone {
		t.Errorf("the standing of a node that isn't in the electorate is %v", s)
	}
}

// Drain appends to what its caller has, and hands out each word once.
func TestDrainAppends(t *testing.T) {
	m := newMesh(t, 3)
	m.nodes["a"].Link(m.now, 77, vote.SessionID{Node: "b", Incarnation: m.lives["b"]})
	first := vote.Outbound{Conn: 1234}
	event := quorum.Event{Number: 4321}
	out, events := m.nodes["a"].Drain([]vote.Outbound{first}, []quorum.Event{event})
	if len(out) < 2 || out[0].Conn != first.Conn || events[0].Number != event.Number {
		t.Errorf("%d words and %d events: what the caller had, or what the node has to say, is missing", len(out), len(events))
	}
	if again, _ := m.nodes["a"].Drain(nil, nil); len(again) != 0 {
		t.Errorf("%d words are handed out twice", len(again))
	}
}

// While two live processes bear one name, neither can be sure that it is the voter. A voter that is told
// that its name is taken therefore promises nothing for a maximum TTL, and counts again after it.
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
			a.Deliver(m.at("a"), c, vote.SessionID{Node: "b", Incarnation: m.lives["b"]}, &vote.Message{
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
