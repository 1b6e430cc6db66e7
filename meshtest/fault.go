package meshtest

import (
	"maps"
	"time"

	"github.com/lockmesh/lockmesh"
)

// Partition splits the network: afterwards nodes communicate only within their group. Nodes in no
// group form one more group. The partition replaces the effects of earlier calls of Partition and
// Cut, and applies to later incarnations of the nodes, too.
//
// As with TCP, messages between groups aren't lost: messages already sent wait until Heal, or until
// the sender gives up the connection.
func (m *Mesh) Partition(groups ...[]string) {
	m.t.Helper()
	defer m.acquire()()
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
	cuts := make(map[link]bool)
	for _, from := range m.opts.names {
		for _, to := range m.opts.names {
			if group[from] != group[to] {
				cuts[link{from, to}] = true
			}
		}
	}
	m.cut(cuts)
}

// Cut holds back all messages from one node to another from now on. The opposite direction stays
// open. Cuts add to the effects of earlier calls of Partition and Cut.
func (m *Mesh) Cut(from, to string) {
	m.t.Helper()
	defer m.acquire()()
	m.find(from)
	m.find(to)
	if from == to {
		m.t.Fatalf("meshtest: Cut(%q, %q): a node always hears itself", from, to)
	}
	cuts := maps.Clone(m.cuts)
	if cuts == nil {
		cuts = make(map[link]bool)
	}
	cuts[link{from, to}] = true
	m.cut(cuts)
}

// Heal ends all partitions and cuts. Messages held back arrive.
func (m *Mesh) Heal() {
	defer m.acquire()()
	m.cut(nil)
}

// cut replaces the set of cuts. The network reads the map, so the map must not be changed
// afterwards.
func (m *Mesh) cut(cuts map[link]bool) {
	m.cuts = cuts
	m.net.Cut(func(from, to string) bool { return cuts[link{from, to}] })
}

// Crash ends a node without warning, as kill -9 does; the node may be paused. Its leases end at
// once, with [lockmesh.ErrLost], and lapse at the voters within a TTL. Nodes connected to the
// crashed node see their connections end at once; nodes cut off from it see nothing, as after a
// power failure.
func (m *Mesh) Crash(name string) {
	m.t.Helper()
	defer m.acquire()()
	n := m.find(name)
	if !n.up {
		m.t.Fatalf("meshtest: Crash(%q): it has crashed before; Restart it first", name)
	}
	m.kill(n)
}

// kill ends the current incarnation of a node, if there is one.
func (m *Mesh) kill(n *node) {
	m.t.Helper()
	if !n.up {
		return
	}
	if n.paused {
		n.proc.Kill() // or the paused process would still send its pending messages
	}
	n.up, n.paused = false, false
	if err := n.mesh.Load().Close(); err != nil {
		m.t.Errorf("meshtest: closing %s: %v", n.name, err)
	}
}

// Restart starts a node again, under its name and at its address, and returns the new incarnation.
// A running node crashes first. A voter spends MaxTTL in startup quarantine before its votes count;
// Ready waits for the end of the quarantine.
func (m *Mesh) Restart(name string) *lockmesh.Mesh {
	m.t.Helper()
	defer m.acquire()()
	n := m.find(name)
	m.kill(n)
	m.start(n)
	return n.mesh.Load()
}

// Wipe empties the state directory of a crashed node, like the loss of its disk. The node returns
// as a new peer, and is voted in again.
func (m *Mesh) Wipe(name string) {
	m.t.Helper()
	defer m.acquire()()
	n := m.find(name)
	switch {
	case !m.opts.dynamic:
		m.t.Fatalf("meshtest: Wipe(%q): the electorate is fixed, so nodes have no state directories; use WithDynamicMembership", name)
	case n.up:
		m.t.Fatalf("meshtest: Wipe(%q): it %s; only a node that has crashed can lose its directory", name, n.state())
	}
	m.net.Wipe(n.stateDir())
}

// Pause stops a node as SIGSTOP stops its process: none of its timers fires, and no message is
// received or sent, but no other effect is visible. Voters drop the node's leases when they expire,
// so other nodes acquire the locks; the paused node doesn't know.
//
// A call into the node blocks until Resume, as the whole process would: a goroutine of the
// application that calls [lockmesh.Lease.Err] blocks, too, just where a stopped process would
// continue. Goroutines that don't call the node can't be stopped and continue; and so may a call
// with a context that ends, since a context doesn't belong to the node. Don't call the node in the
// goroutine that is to call Resume.
func (m *Mesh) Pause(name string) {
	m.t.Helper()
	defer m.acquire()()
	n := m.find(name)
	if c := n.state(); c != running {
		m.t.Fatalf("meshtest: Pause(%q): it %s; only a node that runs can be paused", name, c)
	}
	n.paused = true
	n.proc.Pause()
}

// Resume continues a paused node. The node's clock then shows the elapsed time, so the first call
// of [lockmesh.Lease.Err] reports a lease that has expired during the pause as lost; timers fire;
// and messages that arrived during the pause are received.
func (m *Mesh) Resume(name string) {
	m.t.Helper()
	defer m.acquire()()
	n := m.find(name)
	if c := n.state(); c != paused {
		m.t.Fatalf("meshtest: Resume(%q): it %s; only a paused node can be resumed", name, c)
	}
	n.paused = false
	n.proc.Resume()
}

// SetClock sets a node's wall clock to the true time plus ahead, which may be negative, now and for
// later incarnations. Timers and voters are not affected. A holder interprets a step forward as a
// sleep of its machine, so a step of a TTL costs the node its leases.
func (m *Mesh) SetClock(name string, ahead time.Duration) {
	m.t.Helper()
	defer m.acquire()()
	n := m.find(name)
	n.clockOffset = ahead
	n.proc.Clock().Set(ahead)
}
