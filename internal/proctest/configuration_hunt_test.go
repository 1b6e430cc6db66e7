//go:build hunt

package proctest

import (
	"path/filepath"
	"testing"
	"time"
)

// Nodes with a different MaxTTL each never serve: each node stays quiet for its own MaxTTL, and
// trusts leases that the other nodes would consider over.
func TestNodesWithAnotherMaxTTLEachNeverServe(t *testing.T) {
	t.Parallel()
	m := newMesh(t, abc)
	for i, name := range abc {
		m.start(name, m.addrs[name], "-max-ttl", (time.Duration(4+i) * time.Second).String())
	}
	for _, name := range abc {
		m.procs[name].awaitError("ready", "refused")
	}
	// Nothing may happen within a time longer than the startup quarantine of any node.
	time.Sleep(8 * time.Second)
	for _, name := range abc {
		p := m.procs[name]
		p.tell("lock k")
		p.awaitError("lock", "refused")
		p.none("ready")
		p.none("granted")
	}
}

// MaxTTL is raised by restarting the fixed voters in turn, while workers on all nodes contend for a
// lock. To lower MaxTTL in this way isn't safe, as docs/changing-maxttl.md explains: voters
// restarted in quick succession may meet no voter with knowledge of the longer leases.
func TestAMaxTTLRaisedNodeByNodeNeverHasTwoHolders(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger")
	const before, after = 2 * time.Second, 4 * time.Second
	m := startMesh(t, abc, "-max-ttl", before.String(), "-lock", "k", "-hold", "20ms", "-pause", "1ms", "-ledger", file)
	for _, name := range abc {
		m.procs[name].awaitEvent("granted", "k")
	}
	for i, name := range []string{"c", "b", "a"} {
		m.procs[name].kill()
		m.start(name, m.addrs[name], "-max-ttl", after.String())
		if i == 0 { // the first voter alone waits, and the other two go on
			m.procs[name].awaitError("ready", "refused")
			m.procs["a"].forget()
			m.procs["a"].awaitEvent("granted", "k")
			m.procs[name].none("granted")
		}
	}
	for _, name := range abc {
		m.procs[name].awaitEvent("granted", "k")
	}
	for _, name := range abc {
		m.procs[name].tell("leave")
	}
	for _, name := range abc {
		m.procs[name].exitCode()
	}
	leases, _ := judgeFile(t, file)
	t.Logf("%d leases", len(leases))
}

// A node with a state directory among nodes without is refused, and so is a node without among
// nodes with. The other nodes go on.
func TestOneNodeOfAnotherKindStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"with a directory among nodes without", "without a directory among nodes with"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m, dirs := newMesh(t, abc, "-max-ttl", "3s"), t.TempDir()
			args := func(name string, has bool) []string {
				if !has {
					return nil
				}
				return []string{"-state-dir", filepath.Join(dirs, name), "-bootstrap"}
			}
			others := kind == "without a directory among nodes with"
			if others { // the others wait for every named founder, so c isn't named
				m.names = abc[:2]
			}
			for _, name := range abc[:2] {
				m.start(name, m.addrs[name], args(name, others)...)
			}
			for _, name := range abc[:2] {
				m.procs[name].reached("listening")
			}
			odd := m.start("c", m.addrs["c"], args("c", !others)...)
			for _, name := range abc[:2] {
				m.procs[name].reached("ready")
			}
			odd.tell("lock k")
			odd.awaitError("lock", "refused")
			m.procs["a"].lock("k")
			odd.none("ready")
			odd.none("granted")
		})
	}
}
