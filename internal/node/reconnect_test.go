package node

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

func TestAStoppedProcessFindsItsOwnVoterAgain(t *testing.T) {
	m := awake(t, 3)
	c := m.nodes["c"]
	delete(m.nodes, "c") // stopped (SIGSTOP)
	m.pass(2 * ttl)
	// c goes on. The first message that c reads is of a second process of its name, started
	// meanwhile.
	m.nodes["c"] = c
	other := vote.SessionID{Node: "c", Incarnation: 77}
	m.last++
	conn := m.last
	c.Deliver(m.now, conn, other, &vote.Message{Kind: vote.KindOpen, Stream: 1, TTL: ttl})
	c.Deliver(m.now, conn, other, &vote.Message{Kind: vote.KindSync, Stream: 1, End: true})
	for range 3 {
		out, _ := c.Drain(nil, nil)
		for _, o := range out {
			if o.Conn == conn && o.Message.Kind == vote.KindProbe {
				c.Deliver(m.now, conn, other, &vote.Message{Kind: vote.KindProbeReply, Stream: 1})
			}
		}
	}
	c.Unlink(m.now, conn) // the second process is gone again
	for _, o := range []vote.NodeID{"a", "b"} {
		m.link("c", o)
	}
	m.pass(10 * ttl)
	for _, v := range c.Voters(m.now) {
		if v.State != quorum.Reachable {
			t.Errorf("%v, ten TTLs after the other process is gone", v)
		}
	}
}

// A live process is resyncing with a voter at the moment when a second process of the same name
// connects to the voter.
func TestAProbeReachesAnIncarnationThatResyncs(t *testing.T) {
	m := awake(t, 3)
	a, c := m.nodes["a"], m.nodes["c"]
	var conn vote.Conn
	for k, l := range m.conns {
		if l.from == "c" && l.to == "a" {
			conn = k
		}
	}
	cid := vote.SessionID{Node: "c", Incarnation: m.incarnations["c"]}
	aid := vote.SessionID{Node: "a", Incarnation: m.incarnations["a"]}
	// Anything that makes c resync, here a stream unknown to a.
	c.Deliver(m.now, conn, aid, &vote.Message{Kind: vote.KindUnknown, Stream: 1})
	var under []vote.Message // c's open and sync, on their way
	out, _ := c.Drain(nil, nil)
	for _, o := range out {
		if o.Conn == conn {
			under = append(under, o.Message)
		}
	}
	other := vote.SessionID{Node: "c", Incarnation: 77}
	m.last++
	conn2 := m.last
	a.Deliver(m.now, conn2, other, &vote.Message{Kind: vote.KindOpen, Stream: 1, TTL: ttl})
	a.Deliver(m.now, conn2, other, &vote.Message{Kind: vote.KindSync, Stream: 1, End: true})
	a.Deliver(m.now, conn2, other, &vote.Message{Kind: vote.KindProbeReply, Stream: 1})
	for i := range under {
		a.Deliver(m.now, conn, cid, &under[i])
	}
	m.run()
	m.pass(ttl) // c is alive and answers all the time
	if n := a.Voter().Counters().Superseded; n != 0 {
		t.Fatalf("the live older process was superseded (%d)", n)
	}
}

func TestATryLockAfterUnlockDoesNotLoseToOneLateVoter(t *testing.T) {
	m := awake(t, 3)
	a := m.lock("a", "k", false)
	m.want("a", a, quorum.EventGranted)
	m.pass(time.Second) // all voters know the lease
	// Messages from a to b are slow; a and c confirm the release.
	var ab vote.Conn
	for k, l := range m.conns {
		if l.from == "a" && l.to == "b" {
			ab = k
		}
	}
	l := m.conns[ab]
	delete(m.conns, ab)
	m.release("a", a)
	if e := m.want("a", a, quorum.EventReleased); e.Wait.Reason != quorum.WaitNone {
		t.Fatal(e)
	}
	m.conns[ab] = l
	m.cut(func(l link) bool { return l.from == "c" && l.to == "a" })
	m.nodes["c"].DialFailed(m.now, "a", "no route")
	n := m.lock("c", "k", true)
	e := m.outcome("c", n)
	if e.Kind == quorum.EventFailed {
		t.Fatalf("Unlock has returned nil, nobody has the lock: %+v", e)
	}
}
