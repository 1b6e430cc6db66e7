//go:build hunt

package proctest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// with returns the mesh's arguments with another list of voters.
func (m *mesh) with(voters ...string) []string {
	args := m.args()
	args[1] = strings.Join(voters, ",")
	return args
}

// startWith starts a node with another list of voters than the rest.
func (m *mesh) startWith(name string, voters ...string) *process {
	m.t.Helper()
	m.procs[name] = launch(m.t, name, secret, append(m.with(voters...), "-bind", m.addrs[name])...)
	return m.procs[name]
}

// Several nodes each list only themselves as voters, as happens where a list is made of the host's
// name. By its own list each node alone would be a majority.
func TestNodesWithAListEachNeverServe(t *testing.T) {
	t.Parallel()
	// All must be up before the first counts, on a busy machine too.
	m := newMesh(t, abc, "-max-ttl", "8s")
	for _, name := range abc {
		m.startWith(name, name)
	}
	for _, name := range abc {
		p := m.procs[name]
		refused := p.awaitError("ready", "refused")
		for _, words := range []string{"Voters is [" + name + "] here", "run with another configuration"} {
			if !strings.Contains(refused.Text, words) {
				t.Errorf("%s: the error doesn't say %q: %s", name, words, refused.Text)
			}
		}
	}
	// Nothing may happen within a time longer than a node with a list of its own needs to count.
	time.Sleep(12 * ttl)
	for _, name := range abc {
		p := m.procs[name]
		p.tell("lock k")
		p.awaitError("lock", "refused")
		p.tell("trylock k")
		p.awaitError("trylock", "refused")
		p.none("ready")
		p.none("granted")
		p.forget()
		p.tell("status")
		st := p.awaitEvent("status", "").Status
		if len(st.Refused) != 2 || st.Electorate.Ready {
			t.Errorf("%s: refused peers %+v, ready %v", name, st.Refused, st.Electorate.Ready)
		}
	}
	// An operator corrects the lists, node by node. Then the nodes serve.
	for _, name := range abc {
		m.procs[name].kill()
		m.start(name, m.addrs[name])
	}
	for _, name := range abc {
		m.procs[name].reached("ready")
	}
	m.procs["a"].lock("k")
}

// The list of voters grows from three to five by restarting the nodes in turn, the last node first,
// as a StatefulSet does. Meanwhile workers on all nodes contend for a lock.
func TestAListGrownNodeByNodeNeverHasTwoHolders(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger")
	m := newMesh(t, abc, "-lock", "k", "-hold", "20ms", "-pause", "1ms", "-ledger", file)
	abcde := []string{"a", "b", "c", "d", "e"}
	m.admit("d")
	m.admit("e")
	for _, name := range abc {
		m.start(name, m.addrs[name])
	}
	for _, name := range abc {
		m.procs[name].awaitEvent("granted", "k")
	}
	m.startWith("e", abcde...)
	m.startWith("d", abcde...)
	m.procs["e"].awaitError("ready", "refused")
	m.procs["d"].awaitError("ready", "refused")
	for _, name := range []string{"c", "b", "a"} {
		m.procs[name].kill()
		m.startWith(name, abcde...)
		if name != "b" {
			m.procs[name].reached("listening")
			time.Sleep(3 * ttl) // long enough for a node with a wrong list to count
		}
		if name == "c" {
			for _, waits := range []string{"c", "d", "e"} {
				m.procs[waits].none("ready")
				m.procs[waits].none("granted")
			}
			m.procs["a"].forget()
			m.procs["a"].awaitEvent("granted", "k") // a and b go on
		}
	}
	for _, name := range abcde {
		m.procs[name].awaitEvent("granted", "k")
	}
	for _, name := range abcde {
		m.procs[name].tell("leave")
	}
	for _, name := range abcde {
		m.procs[name].exitCode()
	}
	leases, _ := judgeFile(t, file)
	pause := time.Duration(0)
	for i := 1; i < len(leases); i++ {
		pause = max(pause, leases[i].began.Sub(leases[i-1].began))
	}
	t.Logf("%d leases; the longest pause between two was %v, with a MaxTTL of %v", len(leases), pause.Round(time.Millisecond), ttl)
}

// A node with a mistake in its list hinders no other node: not at the first start, not while the
// others run, and not while the others are restarted in turn.
func TestOneMisconfiguredNodeStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"c", "m"} { // a voter, and a node that isn't a voter
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			// The misconfigured node must meet the others before it counts, on a busy machine too.
			m := newMesh(t, abc, "-max-ttl", "3s")
			right := abc
			if wrong == "c" {
				right = abc[:2]
			} else {
				m.admit(wrong)
			}
			for _, name := range right {
				m.start(name, m.addrs[name])
			}
			for _, name := range right {
				m.procs[name].reached("listening")
			}
			// The misconfigured node starts last: alone for a MaxTTL this node would count, and a
			// node that counts goes on.
			m.startWith(wrong, wrong)
			for _, name := range right {
				m.procs[name].reached("ready")
			}
			m.procs[wrong].awaitError("ready", "refused")
			for _, name := range right {
				m.procs[name].kill()
				m.start(name, m.addrs[name])
				m.procs[name].reached("ready")
				m.procs[name].lock("after a restart of " + name)
			}
			m.procs[wrong].none("ready")
			m.procs[wrong].tell("lock k")
			m.procs[wrong].awaitError("lock", "refused")
		})
	}
}
