package proctest

import (
	"testing"
	"time"
)

// The next waiter gets the lock of a killed holder without any command: soon after the lease has
// ended, and not before.
func TestTheWaiterTakesOverFromAKilledHolder(t *testing.T) {
	t.Parallel()
	m := startMesh(t, abc)
	holder, waiter := m.procs["a"], m.procs["b"]
	dead := holder.lock("k")
	waiter.queued("k")
	// The lease is now older than its first deadline, and lives by its renewals.
	holder.renewed("k", 3)
	killed := holder.kill()
	ends := holder.lastDeadline(dead.Token)
	granted := waiter.awaitEvent("granted", "k")
	notBefore(t, granted, ends, "the dead lease had not ended")
	larger(t, granted, dead)
	t.Logf("the waiter was granted the lock %v after the kill", granted.At.Sub(killed).Round(100*time.Microsecond))
	report(t, "takeover from a killed holder: since its lease's end", granted.At.Sub(ends), time.Second)
}

// A voter is killed and restarted at once under the same name. The mesh lets the voter in; the
// voter is quiet, and votes again. The other nodes lose nothing.
func TestAVoterIsKilledAndRestartedAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, bind string }{{"on its old port", ""}, {"on a port that the system chooses", "127.0.0.1:0"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := startMesh(t, abc)
			a, b := m.procs["a"], m.procs["b"]
			held := a.lock("k")
			if c.bind == "" {
				c.bind = m.addrs["c"]
			}
			m.procs["c"].kill()
			voter := m.start("c", c.bind)
			voter.reached("listening")
			quiet := voter.await("c quiet", func(l line) bool { return l.Voters["c"] == "quiet" })
			counts := voter.await("c counts", func(l line) bool { return l.Voters["c"] == "reachable" })
			notBefore(t, counts, voter.start.Add(ttl), "a voter is quiet for MaxTTL")
			report(t, "a restarted voter counts, since it was seen quiet", counts.At.Sub(quiet.At), ttl+time.Second)
			a.awaitVoter("c", "reachable")

			// With b killed, c is needed for a majority. c must respect the lease from before its
			// restart, and vote for the next request.
			b.kill()
			a.awaitVoter("b", "unreachable")
			a.renewed("k", 6)
			a.tell("use k")
			a.awaitEvent("used", "k")
			a.none("lost")
			voter.queued("k")
			a.tell("unlock k")
			a.awaitEvent("released", "k")
			larger(t, voter.awaitEvent("granted", "k"), held)
			voter.none("lost")
		})
	}
}

// After a restart of all nodes, no node remembers the leases of the time before. So no lock is
// granted until the last of the old leases has ended.
func TestAllAreKilledAndRestarted(t *testing.T) {
	t.Parallel()
	const quiet = ttl // longer than the token query timeout of a second
	m := startMesh(t, abc)
	dead := m.procs["a"].lock("k")
	m.procs["a"].renewed("k", 2)
	for _, name := range abc {
		m.procs[name].kill()
	}
	ends := m.procs["a"].lastDeadline(dead.Token)
	first := time.Now()
	for _, name := range abc {
		m.start(name, m.addrs[name])
	}
	last := dead
	for i, name := range abc {
		p := m.procs[name]
		p.reached("listening")
		granted := p.lock("k")
		notBefore(t, granted, first.Add(quiet), "all voters had just started")
		notBefore(t, granted, ends, "the dead lease had not ended")
		larger(t, granted, last)
		if i == 0 {
			// No voter remembers a token, so each queries the others for a second before it trusts
			// its own clock.
			report(t, "first lease, since all were restarted", granted.At.Sub(first), quiet+2*time.Second)
		}
		last = granted
		p.tell("unlock k")
		p.awaitEvent("released", "k")
	}
}
