//go:build hunt

package proctest

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Nodes that have a MaxTTL each never serve: each is quiet for its own, and trusts leases that the others would take for over.
func TestNodesWithAnotherMaxTTLEachNeverServe(t *testing.T) {
	t.Parallel()
	m := newMesh(t, abc)
	for i, name := range abc {
		m.start(name, m.addrs[name], "-max-ttl", (time.Duration(4+i) * time.Second).String())
	}
	for _, name := range abc {
		m.procs[name].awaitError("ready", "refused")
	}
	time.Sleep(8 * time.Second) // nothing is to happen, however long one waits: longer than any of them is quiet
	for _, name := range abc {
		p := m.procs[name]
		p.tell("lock k")
		p.awaitError("lock", "refused")
		p.none("ready")
		p.none("granted")
	}
}

// MaxTTL is raised by restarting one fixed voter after the other, while workers on all nodes contend
// for one lock. To lower it so isn't safe, as docs/changing-maxttl.md says: voters that are restarted
// soon one after the other may meet none that knows of the longer leases.
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
		if i == 0 { // one alone waits, and the other two go on
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
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	leases, _, err := judge(string(text))
	if err != nil {
		t.Errorf("%v\nin a ledger that ends with:\n%s", err, tail(string(text), 4000))
	}
	t.Logf("%d leases", len(leases))
}

// A node with a state directory among nodes without, and one without among nodes with, is refused, and the others go on.
func TestOneNodeOfAnotherKindStopsNobody(t *testing.T) {
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
			if others { // a founder that never comes would keep the others from founding
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
