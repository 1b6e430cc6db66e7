package meshtest

import (
	"maps"
	"time"

	"github.com/lockmesh/lockmesh"
)

// Partition splits the network: afterwards exactly the nodes of one group hear each other. Nodes that aren't named are one more group. It
// replaces whatever Partition and Cut did before, and holds for the nodes' later lives, too.
//
// As with TCP, messages between groups aren't lost: those that were sent wait until Heal, or until their sender gives the connection up.
func (m *Mesh) Partition(groups ...[]string) {
	m.t.Helper()
	defer m.take()()
	if len(groups) == 0 {
		m.t.Fatal("meshtest: Partition without groups; name one that is to be cut off, or call Heal")
	}
	group := make(map[string]int)
	for i, names := range groups {
		for _, name := range names {
			m.find(name)
			if j, ok := group[name]; ok && j != i+1 {
				m.t.Fatalf("meshtest: Partition puts %q into two groups; one node can't be on both sides", name)
			}
			group[name] = i + 1
		}
	}
	cuts := make(map[way]bool)
	for _, from := range m.opts.names {
		for _, to := range m.opts.names {
			if group[from] != group[to] {
				cuts[way{from, to}] = true
			}
		}
	}
	m.cut(cuts)
}

// Cut holds back what one node sends to another from now on. The other way stays open. It comes on top of what Partition and Cut did before.
func (m *Mesh) Cut(from, to string) {
	m.t.Helper()
	defer m.take()()
	m.find(from)
	m.find(to)
	if from == to {
		m.t.Fatalf("meshtest: Cut(%q, %q): a node always hears itself", from, to)
	}
	cuts := maps.Clone(m.cuts)
	if cuts == nil {
		cuts = make(map[way]bool)
	}
	cuts[way{from, to}] = true
	m.cut(cuts)
}

// Heal ends all partitions and cuts. What waited arrives.
func (m *Mesh) Heal() {
	defer m.take()()
	m.cut(nil)
}

// cut makes these the cuts that there are. The network reads the map, so it isn't changed any more.
func (m *Mesh) cut(cuts map[way]bool) {
	m.cuts = cuts
	m.net.Cut(func(from, to string) bool { return cuts[way{from, to}] })
}

// Crash ends a node without a word, as kill -9 does; it may be paused. Its leases end here, with [lockmesh.ErrLost], and lapse at the voters
// within a TTL. The others see its connections end at once, unless they are cut off from it: then it is as if its machine had lost power.
func (m *Mesh) Crash(name string) {
	m.t.Helper()
	defer m.take()()
	n := m.find(name)
	if !n.up {
		m.t.Fatalf("meshtest: Crash(%q): it has crashed before; Restart it first", name)
	}
	m.kill(n)
}

// kill ends the life of a node, if it has one.
func (m *Mesh) kill(n *node) {
	m.t.Helper()
	if !n.up {
		return
	}
	if n.paused {
		n.proc.Kill() // or it would still say what it was about to
	}
	n.up, n.paused = false, false
	if err := n.life.Load().Close(); err != nil {
		m.t.Errorf("meshtest: closing %s: %v", n.name, err)
	}
}

// Restart starts a node again, under its name and at its address, and returns the new one. If it runs it crashes first. A voter is quiet for
// MaxTTL and then counts; Ready waits for that.
func (m *Mesh) Restart(name string) *lockmesh.Mesh {
	m.t.Helper()
	defer m.take()()
	n := m.find(name)
	m.kill(n)
	m.start(n)
	return n.life.Load()
}

// Wipe empties the state directory of a node that has crashed, as the loss of its disk does. The node comes back as a new peer, and is voted in again.
func (m *Mesh) Wipe(name string) {
	m.t.Helper()
	defer m.take()()
	n := m.find(name)
	switch {
	case !m.opts.follow:
		m.t.Fatalf("meshtest: Wipe(%q): the electorate is fixed, so nodes have no state directories; use FollowsTheLiving", name)
	case n.up:
		m.t.Fatalf("meshtest: Wipe(%q): it %s; only a node that has crashed can lose its directory", name, n.condition())
	}
	m.net.Wipe(n.stateDir())
}

// Pause stops a node as SIGSTOP stops its process: no timer of it fires, no message goes in or out, and nothing else shows. Voters drop its
// leases when their time is over, so others get them; the node doesn't know.
//
// A call into the node waits until Resume, as the whole process would: so does a goroutine of the application that asks [lockmesh.Lease.Err],
// and that is where a stopped process would be found again. Goroutines that don't touch the node can't be stopped and go on; and so may a call whose
// context ends, since a context isn't the node's. Don't make such a call in the goroutine that is to call Resume.
func (m *Mesh) Pause(name string) {
	m.t.Helper()
	defer m.take()()
	n := m.find(name)
	if c := n.condition(); c != running {
		m.t.Fatalf("meshtest: Pause(%q): it %s; only a node that runs can be paused", name, c)
	}
	n.paused = true
	n.proc.Pause()
}

// Resume lets a paused node go on. Its clock then shows the time that has passed, so that a lease which has ended meanwhile is found lost at the first
// call of [lockmesh.Lease.Err]; timers fire; and what has come meanwhile is taken in.
func (m *Mesh) Resume(name string) {
	m.t.Helper()
	defer m.take()()
	n := m.find(name)
	if c := n.condition(); c != paused {
		m.t.Fatalf("meshtest: Resume(%q): it %s; only a paused node can be resumed", name, c)
	}
	n.paused = false
	n.proc.Resume()
}

// SetClock sets a node's wall clock to the true time and as much more, or less if ahead is negative, now and for its later lives. No timer
// notices, and voters don't mind. A holder takes a step ahead for a sleep of its machine, so one of a TTL costs the node its leases.
func (m *Mesh) SetClock(name string, ahead time.Duration) {
	m.t.Helper()
	defer m.take()()
	n := m.find(name)
	n.ahead = ahead
	n.proc.Clock().Set(ahead)
}
