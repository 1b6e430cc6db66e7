package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// mesh is a few nodes joined by perfect links, for tests that show a conversation. Faults are left
// to the simulator.
type mesh struct {
	t     *testing.T
	now   vote.Now
	walls map[vote.NodeID]vote.Micros // how far wall clocks are ahead
	// slept is how long machines were suspended; the slow clock stops meanwhile.
	slept        map[vote.NodeID]time.Duration
	names        []vote.NodeID
	voters       []vote.NodeID // the first of names
	nodes        map[vote.NodeID]*Node
	incarnations map[vote.NodeID]vote.Incarnation
	conns        map[vote.Conn]link
	last         vote.Conn
	events       map[vote.NodeID][]quorum.Event
	talk         []string        // every message between two nodes
	slow         func(link) bool // messages of the dialer wait on these links; nil: on none
	late         []vote.Outbound
	twist        func(from, to vote.NodeID, m *vote.Message) // changes messages on their way; nil: none
}

type link struct{ from, to vote.NodeID } // from dialed to

const ttl = time.Second

func newMesh(t *testing.T, n int) *mesh { return newMeshOf(t, n, n, nil) }

// newMeshOf returns a mesh of n nodes; the first by name are the voters.
func newMeshOf(t *testing.T, n, voters int, walls map[vote.NodeID]vote.Micros) *mesh {
	m := &mesh{
		t: t, now: vote.Now{Fast: 1e9, Slow: 1e9, Wall: 1_700_000_000_000_000},
		walls: maps.Clone(walls), slept: map[vote.NodeID]time.Duration{}, nodes: map[vote.NodeID]*Node{}, incarnations: map[vote.NodeID]vote.Incarnation{}, conns: map[vote.Conn]link{}, events: map[vote.NodeID][]quorum.Event{},
	}
	for i := range n {
		m.names = append(m.names, vote.NodeID(rune('a'+i)))
	}
	m.voters = slices.Clone(m.names[:voters])
	for _, name := range m.names {
		m.start(name)
	}
	return m
}

// at returns the time shown by a node's clocks.
func (m *mesh) at(name vote.NodeID) vote.Now {
	now := m.now
	now.Wall += m.walls[name]
	now.Fast = now.Fast.Add(m.slept[name])
	return now
}

// start begins a new incarnation of a node and links the node, as relink does.
func (m *mesh) start(name vote.NodeID) {
	m.stop(name)
	m.incarnations[name]++
	n, err := New(Config{Name: name, Incarnation: m.incarnations[name], Voters: m.voters, TTL: ttl, MaxTTL: ttl}, m.at(name))
	if err != nil {
		m.t.Fatal(err)
	}
	m.nodes[name] = n
	m.relink(name)
}

func (m *mesh) link(from, to vote.NodeID) {
	m.last++
	m.conns[m.last] = link{from, to}
	m.nodes[from].Link(m.at(from), m.last, vote.SessionID{Node: to, Incarnation: m.incarnations[to]})
}

// relink connects a node with all voters, and all nodes with the node if it votes.
func (m *mesh) relink(name vote.NodeID) {
	for _, other := range m.names {
		if other == name || m.nodes[other] == nil {
			continue
		}
		if slices.Contains(m.voters, other) {
			m.link(name, other)
		}
		if slices.Contains(m.voters, name) {
			m.link(other, name)
		}
	}
	m.run()
}

// stop ends a node without a message; its connections break.
func (m *mesh) stop(name vote.NodeID) {
	if m.nodes[name] == nil {
		return
	}
	delete(m.nodes, name)
	m.cut(func(l link) bool { return l.from == name || l.to == name })
}

func (m *mesh) cut(which func(link) bool) {
	for c := vote.Conn(1); c <= m.last; c++ {
		l, ok := m.conns[c]
		if !ok || !which(l) {
			continue
		}
		delete(m.conns, c)
		for _, end := range []vote.NodeID{l.from, l.to} {
			if n := m.nodes[end]; n != nil {
				n.Unlink(m.at(end), c)
			}
		}
	}
}

// run delivers until no message is left.
func (m *mesh) run() {
	for busy := true; busy; {
		busy = false
		for _, name := range m.names {
			n := m.nodes[name]
			if n == nil {
				continue
			}
			out, events := n.Drain(nil, nil)
			m.events[name] = append(m.events[name], events...)
			for _, o := range out {
				l, ok := m.conns[o.Conn]
				if !ok {
					continue
				}
				if o.Close {
					delete(m.conns, o.Conn)
					continue
				}
				if m.slow != nil && m.slow(l) && l.from == name {
					m.late = append(m.late, o)
					continue
				}
				busy = true
				to := l.to
				if l.to == name {
					to = l.from
				}
				m.talk = append(m.talk, fmt.Sprintf("%s>%s %s", name, to, o.Message.Kind))
				if m.twist != nil {
					m.twist(name, to, &o.Message)
				}
				if p := m.nodes[to]; p != nil {
					p.Deliver(m.at(to), o.Conn, vote.SessionID{Node: name, Incarnation: m.incarnations[name]}, &o.Message)
				}
			}
		}
	}
}

// arrive delivers the waiting messages.
func (m *mesh) arrive() {
	late := m.late
	m.slow, m.late = nil, nil
	for i := range late {
		if l, ok := m.conns[late[i].Conn]; ok && m.nodes[l.to] != nil {
			m.nodes[l.to].Deliver(m.at(l.to), late[i].Conn, vote.SessionID{Node: l.from, Incarnation: m.incarnations[l.from]}, &late[i].Message)
		}
	}
	m.run()
}

// pass lets time pass in steps of 10 ms.
func (m *mesh) pass(d time.Duration) {
	const step = 10 * time.Millisecond
	for ; d > 0; d -= step {
		m.now.Fast, m.now.Slow, m.now.Wall = m.now.Fast.Add(step), m.now.Slow.Add(step), m.now.Wall+vote.Micros(step.Microseconds())
		for _, name := range m.names {
			if n := m.nodes[name]; n != nil && n.Next(m.at(name)) <= 0 {
				n.Tick(m.at(name))
			}
		}
		m.run()
	}
}

func (m *mesh) lock(name vote.NodeID, key vote.Key, try bool) vote.Number {
	n, err := m.nodes[name].Lock(m.at(name), quorum.Exclusive(key, try))
	if err != nil {
		m.t.Fatal(err)
	}
	m.run()
	return n
}

func (m *mesh) release(name vote.NodeID, n vote.Number) {
	m.nodes[name].Release(m.at(name), n)
	m.run()
}

// outcome returns the last outcome of a request.
func (m *mesh) outcome(name vote.NodeID, n vote.Number) quorum.Event {
	for _, e := range slices.Backward(m.events[name]) {
		switch e.Kind {
		case quorum.EventGranted, quorum.EventFailed, quorum.EventLost, quorum.EventReleased:
			if e.Number == n {
				return e
			}
		}
	}
	return quorum.Event{}
}

func (m *mesh) want(name vote.NodeID, n vote.Number, kind quorum.EventKind) quorum.Event {
	m.t.Helper()
	e := m.outcome(name, n)
	if e.Kind != kind {
		m.t.Fatalf("%s's request %d: last event is %+v, want kind %d\n%s", name, n, e, kind, m.nodes[name].PendingReason(m.now, n).Text)
	}
	return e
}

func awake(t *testing.T, n int) *mesh { return awakeOf(t, n, n) }

func awakeOf(t *testing.T, n, voters int) *mesh { return awakeAt(t, n, voters, nil) }

// awakeAt returns a mesh past the startup quarantine, with some wall clocks ahead or behind.
func awakeAt(t *testing.T, n, voters int, walls map[vote.NodeID]vote.Micros) *mesh {
	m := newMeshOf(t, n, voters, walls)
	m.pass(ttl + vote.TokenQueryTimeout + 200*time.Millisecond)
	for _, name := range m.names {
		if !m.nodes[name].Ready() {
			t.Fatalf("%s isn't ready: %v", name, m.nodes[name].Voters(m.now))
		}
	}
	return m
}

func TestNothingIsGrantedWhileQuiet(t *testing.T) {
	m := newMesh(t, 3)
	n := m.lock("a", "k", false)
	m.pass(ttl - 20*time.Millisecond)
	m.want("a", n, quorum.EventNone)
	if w := m.nodes["a"].PendingReason(m.now, n); w.Reason != quorum.WaitNoQuorum || !strings.Contains(w.Text, "0 of 3 voters count: a quiet for") {
		t.Fatalf("why: %+v", w)
	}
	m.pass(vote.TokenQueryTimeout + 100*time.Millisecond)
	m.want("a", n, quorum.EventGranted)
}

func TestAFreeLockTakesOneRoundTrip(t *testing.T) {
	m := awake(t, 3)
	m.talk = nil
	n := m.lock("a", "k", false)
	m.want("a", n, quorum.EventGranted)
	if want := []string{"a>b request", "b>a promise", "a>b confirm"}; !slices.Equal(m.talk, want) {
		t.Fatalf("talk: %q", m.talk)
	}
	m.talk = nil
	m.pass(time.Millisecond)
	// The request to c was deferred, but a lasting lease rests on all voters.
	m.pass(time.Millisecond)
	if want := []string{"a>c request", "a>c confirm", "c>a promise"}; len(m.talk) < 3 || !slices.Equal(m.talk[:3], want) {
		t.Fatalf("talk: %q", m.talk)
	}
	if c := m.nodes["a"].Requester().Counters(); c.FirstRound != 1 || c.Confirmations != 0 {
		t.Fatalf("%+v", c)
	}
}

func TestTheNextWaiterIsServedByOneRelease(t *testing.T) {
	m := awake(t, 3)
	a := m.lock("a", "k", false)
	b := m.lock("b", "k", false)
	c := m.lock("c", "k", false)
	first := m.want("a", a, quorum.EventGranted)
	m.want("b", b, quorum.EventNone)
	if w := m.nodes["b"].PendingReason(m.now, b); w.Reason != quorum.WaitHeld {
		t.Fatalf("b waits for %+v", w)
	}
	m.release("a", a)
	if e := m.want("a", a, quorum.EventReleased); e.Wait.Reason != quorum.WaitNone {
		t.Fatalf("%+v", e)
	}
	second := m.want("b", b, quorum.EventGranted)
	m.want("c", c, quorum.EventNone)
	m.release("b", b)
	third := m.want("c", c, quorum.EventGranted)
	if !(first.Token < second.Token && second.Token < third.Token) {
		t.Fatalf("tokens %d, %d, %d don't rise", first.Token, second.Token, third.Token)
	}
}

func TestALeaseIsKeptUpForAsLongAsItsNodeLives(t *testing.T) {
	m := awake(t, 3)
	a := m.lock("a", "k", false)
	b := m.lock("b", "k", false)
	m.pass(10 * ttl)
	m.want("a", a, quorum.EventGranted)
	m.stop("a")
	m.pass(ttl * 3 / 4)
	m.want("b", b, quorum.EventNone)
	m.pass(ttl / 2)
	m.want("b", b, quorum.EventGranted)
}

func TestALeaseOutlivesARollingRestart(t *testing.T) {
	m := awake(t, 3)
	a := m.lock("a", "k", false)
	for _, name := range []vote.NodeID{"b", "c", "b"} {
		m.start(name)
		m.pass(2*ttl + vote.TokenQueryTimeout)
	}
	m.want("a", a, quorum.EventGranted)
	if n := m.lock("b", "k", true); m.outcome("b", n).Wait.Reason != quorum.WaitHeld {
		t.Fatalf("TryLock of a held key: %+v", m.outcome("b", n))
	}
}

func TestOfAllTryLocksAtOnceExactlyOneWins(t *testing.T) {
	m := awake(t, 5)
	nums := map[vote.NodeID]vote.Number{}
	for _, name := range m.names {
		n, _ := m.nodes[name].Lock(m.at(name), quorum.Exclusive("k", true))
		nums[name] = n
	}
	m.run()
	won := 0
	for _, name := range m.names {
		switch e := m.outcome(name, nums[name]); {
		case e.Kind == quorum.EventGranted:
			won++
		case e.Kind != quorum.EventFailed || e.Wait.Reason != quorum.WaitHeld:
			t.Errorf("%s: %+v", name, e)
		}
	}
	if won != 1 {
		t.Fatalf("%d of 5 TryLocks won", won)
	}
}

func TestSplitVotesAreResolvedForTheOldest(t *testing.T) {
	m := awake(t, 3)
	nums := map[vote.NodeID]vote.Number{}
	for _, name := range m.names {
		// Each node has the vote of its own voter first.
		nums[name], _ = m.nodes[name].Lock(m.at(name), quorum.Exclusive("k", false))
	}
	m.run()
	m.want("a", nums["a"], quorum.EventGranted)
	m.release("a", nums["a"])
	m.want("b", nums["b"], quorum.EventGranted)
	m.release("b", nums["b"])
	m.want("c", nums["c"], quorum.EventGranted)
}

func TestAMinorityGetsNoQuorumAtOnce(t *testing.T) {
	m := awake(t, 3)
	m.stop("b")
	m.stop("c")
	for _, v := range []vote.NodeID{"b", "c"} {
		m.nodes["a"].DialFailed(m.now, v, "connection refused")
	}
	n := m.lock("a", "k", true)
	e := m.want("a", n, quorum.EventFailed)
	if e.Wait.Reason != quorum.WaitNoQuorum || e.Wait.Text != "1 of 3 voters counts: b unreachable (connection refused), c unreachable (connection refused)" {
		t.Fatalf("%+v", e.Wait)
	}
}

func TestUnlockWithoutAMajoritySaysWhatIsUnconfirmed(t *testing.T) {
	m := awake(t, 3)
	n := m.lock("a", "k", false)
	m.cut(func(l link) bool { return l.from == "a" })
	m.release("a", n)
	m.want("a", n, quorum.EventGranted)
	m.pass(ttl + 20*time.Millisecond)
	e := m.want("a", n, quorum.EventReleased)
	if e.Wait.Reason != quorum.WaitNoQuorum || !strings.Contains(e.Wait.Text, "1 of 3 voters confirmed the release") {
		t.Fatalf("%+v", e.Wait)
	}
}

func TestANewerIncarnationIsRefusedWhileTheOlderAnswers(t *testing.T) {
	m := awake(t, 3)
	other := vote.SessionID{Node: "c", Incarnation: 77}
	b := m.nodes["b"]
	m.last++
	conn := m.last
	b.Deliver(m.now, conn, other, &vote.Message{Kind: vote.KindOpen, Stream: 1, TTL: ttl})
	b.Deliver(m.now, conn, other, &vote.Message{Kind: vote.KindSync, Stream: 1, End: true})
	var got []vote.Kind
	for range 3 {
		out, _ := b.Drain(nil, nil)
		for _, o := range out {
			if o.Conn == conn {
				got = append(got, o.Message.Kind)
			} else if l := m.conns[o.Conn]; l.from == "c" {
				m.nodes["c"].Deliver(m.now, o.Conn, vote.SessionID{Node: "b", Incarnation: m.incarnations["b"]}, &o.Message)
				back, _ := m.nodes["c"].Drain(nil, nil)
				for _, o := range back {
					b.Deliver(m.now, o.Conn, vote.SessionID{Node: "c", Incarnation: m.incarnations["c"]}, &o.Message)
				}
			}
		}
	}
	if !slices.Equal(got, []vote.Kind{vote.KindProbe, vote.KindRefused}) {
		t.Fatalf("the newer life was told %v", got)
	}
	m.run()
	n := m.lock("c", "k", false)
	m.want("c", n, quorum.EventGranted)
}

func TestNothingIsLeftWhenAllIsReleased(t *testing.T) {
	m := awake(t, 3)
	for range 3 {
		a, b := m.lock("a", "k", false), m.lock("b", "k", false)
		m.release("a", a)
		m.release("b", b)
	}
	m.pass(3 * vote.Skew)
	for _, name := range m.names {
		if left := m.nodes[name].Requester().Open(); left != 0 {
			t.Errorf("%s: %d requests are left", name, left)
		}
		if left := m.nodes[name].Voter().Keys(); left != 0 {
			t.Errorf("%s: %d keys are left", name, left)
		}
		if c := m.nodes[name].Requester().Counters(); c.Mismatches != 0 {
			t.Errorf("%s: %d acknowledgements didn't match", name, c.Mismatches)
		}
	}
}
