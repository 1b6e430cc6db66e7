//go:build hunt

package proctest

import (
	"testing"
	"time"
)

// fiveNodes are the voters of the tests behind the figures in docs/restarting.md.
var fiveNodes = []string{"a", "b", "c", "d", "e"}

// startFive starts five voters with the MaxTTL of docs/restarting.md, and waits until all are
// settled.
func startFive(t *testing.T, dynamic bool) *mesh {
	t.Helper()
	m := newMesh(t, fiveNodes, "-max-ttl", rollTTL.String())
	var more []string
	if dynamic {
		m.dirs, more = t.TempDir(), []string{"-bootstrap"}
	}
	for _, name := range fiveNodes {
		m.start(name, m.addrs[name], more...)
	}
	for _, name := range fiveNodes {
		m.procs[name].reached("settled")
	}
	return m
}

// Five processes are killed at once and started at once, as by a power cut. No lock is granted
// until the startup quarantine is over; then all locks are served, without a command by hand.
func TestAPowerCutOfAllFiveVoters(t *testing.T) {
	for _, c := range []struct {
		name    string
		dynamic bool
	}{{"fixed membership", false}, {"dynamic membership", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := startFive(t, c.dynamic)
			held := m.procs["a"].lock("k")
			m.procs["a"].renewed("k", 2)
			for _, name := range fiveNodes {
				m.procs[name].kill()
			}
			ends := m.procs["a"].lastDeadline(held.Token)
			cut := time.Now()
			for _, name := range fiveNodes {
				m.start(name, m.addrs[name])
			}
			started := time.Now()
			b := m.procs["b"]
			b.reached("listening")
			granted := b.lock("k")
			larger(t, granted, held)
			notBefore(t, granted, ends, "the lease from before the power cut had not ended")
			notBefore(t, granted, cut.Add(rollTTL), "all voters had just started")
			report(t, "first lock, since the last process was started", granted.At.Sub(started), rollTTL+2*time.Second)
			for _, name := range fiveNodes {
				settled := m.procs[name].reached("settled")
				report(t, name+" is settled, since the last process was started", settled.At.Sub(started), rollTTL+2*time.Second)
			}
		})
	}
}

// A voter's machine dies, and a new machine takes the place. In a fixed list the new node has the
// old name and another address; with dynamic membership the new node has a name and a directory of
// its own, and was on standby before.
func TestAMachineIsReplaced(t *testing.T) {
	t.Run("fixed membership: the same name on another address", func(t *testing.T) {
		t.Parallel()
		m := startFive(t, false)
		a := m.procs["a"]
		held := a.lock("k")
		m.procs["c"].kill()
		start := time.Now()
		c := m.start("c", "127.0.0.1:0")
		settled := c.reached("settled")
		notBefore(t, settled, start.Add(rollTTL), "a voter is quiet for MaxTTL")
		report(t, "the new machine is settled, since its start", settled.At.Sub(start), rollTTL+2*time.Second)
		a.tell("unlock k")
		a.awaitEvent("released", "k")
		larger(t, c.lock("k"), held)
		a.none("lost")
	})

	// changed waits until all live nodes report the named voters, reports the time since from, and
	// checks that no lease was lost.
	changed := func(t *testing.T, m *mesh, what string, from time.Time, promised time.Duration, held line, voters ...string) {
		t.Helper()
		var last time.Time
		for _, name := range voters {
			last = later(last, m.procs[name].awaitElectorate(voters...).At)
		}
		report(t, what, last.Sub(from), promised)
		a := m.procs["a"]
		a.tell("unlock k")
		a.awaitEvent("released", "k")
		larger(t, m.procs["f"].lock("k"), held)
		for _, name := range voters {
			m.procs[name].none("lost")
		}
	}
	standby := func(t *testing.T, m *mesh) {
		t.Helper()
		m.admit("f")
		f := m.start("f", m.addrs["f"])
		f.reached("ready")
		f.awaitElectorate(fiveNodes...)
	}
	dynamic := func(t *testing.T) (m *mesh, held line) {
		t.Helper()
		m = newMesh(t, fiveNodes, "-max-ttl", rollTTL.String(), "-max-voters", "5")
		m.dirs = t.TempDir()
		for _, name := range fiveNodes {
			m.start(name, m.addrs[name], "-bootstrap")
		}
		for _, name := range fiveNodes {
			m.procs[name].reached("settled")
		}
		return m, m.procs["a"].lock("k")
	}
	t.Run("dynamic membership: a standby takes the place of a voter that leaves", func(t *testing.T) {
		t.Parallel()
		m, held := dynamic(t)
		standby(t, m)
		from := time.Now()
		m.procs["c"].tell("leave")
		m.procs["c"].reached("left")
		t.Logf("the voter has left after %v", time.Since(from).Round(time.Millisecond))
		changed(t, m, "the standby votes, since the voter was told to leave", from, 5*rollTTL, held, "a", "b", "d", "e", "f")
	})
	t.Run("dynamic membership: a standby takes the place of a voter that died", func(t *testing.T) {
		t.Parallel()
		m, held := dynamic(t)
		standby(t, m)
		from := m.procs["c"].kill()
		changed(t, m, "the standby votes, since the voter was killed", from, 6*rollTTL, held, "a", "b", "d", "e", "f")
	})
}
