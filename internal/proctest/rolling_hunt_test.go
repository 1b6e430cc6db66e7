//go:build hunt

package proctest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// unservedMost is how long a process may wait for a lock at most, while nodes are restarted in
// turn.
const unservedMost = time.Second

// rollTTL is the MaxTTL of meshes in a rolling restart: long enough for a lease to outlive any stop
// of a process on a busy machine.
const rollTTL = 3 * time.Second

// Five processes are restarted, each as soon as the process before is settled. Meanwhile all
// processes take the same lock over and over, and each process holds a lease of its own except
// while it is restarted. No lease is lost, and no process waits for a lock for over a second longer
// than the machine itself stood still.
func TestFault77FiveNodesAreRestartedOneAfterTheOther(t *testing.T) {
	for _, c := range []struct {
		name    string
		dynamic bool
		stop    string // the command
	}{
		{"fixed voters that leave", false, "leave"},
		{"voters with directories that stop", true, "stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			names := []string{"a", "b", "c", "d", "e"}
			m := newMesh(t, names, "-lock", "k", "-hold", "5ms", "-pause", "5ms", "-max-ttl", rollTTL.String())
			if c.dynamic {
				m.dirs = t.TempDir()
			}
			r := &rolling{mesh: m, machine: watchMachine(t)}
			for _, name := range names {
				if c.dynamic {
					r.launch(name, "-bootstrap")
				} else {
					r.launch(name)
				}
			}
			began := r.underLoad()
			for _, name := range names {
				p := m.procs[name]
				p.tell("unlock " + kept(name))
				p.awaitEvent("released", kept(name))
				p.tell(c.stop)
				if code := p.exitCode(); code != 0 {
					t.Errorf("%s ends with code %d, want 0", name, code)
				}
				start := time.Now()
				p = r.launch(name)
				p.reached("settled")
				t.Logf("%s is settled %v after its start", name, time.Since(start).Round(time.Millisecond))
				p.lock(kept(name))
			}
			r.judge(began)
		})
	}
}

func kept(name string) string { return "kept by " + name }

// rolling is a mesh with processes restarted in turn.
type rolling struct {
	*mesh
	machine *machine
	every   []*process // all processes, the dead included
	// crash is how long a process that ends without a message may leave others unserved.
	crash time.Duration
	hasty []*process // processes that may end before the electorate votes them out
}

func (r *rolling) launch(name string, more ...string) *process {
	r.t.Helper()
	p := r.start(name, r.addrs[name], more...)
	r.every = append(r.every, p)
	return p
}

// underLoad waits until all processes are settled, has each process hold a lease, and lets each
// take the common lock 20 times, for comparison. underLoad returns the time of its end.
func (r *rolling) underLoad() time.Time {
	r.t.Helper()
	for _, name := range r.names {
		r.procs[name].reached("settled")
		r.procs[name].lock(kept(name))
	}
	for _, name := range r.names {
		for range 20 {
			r.procs[name].awaitEvent("granted", "k")
		}
	}
	return time.Now()
}

// judge ends the processes, and checks all their output: waits from before the restarts, for
// comparison, and waits from after.
func (r *rolling) judge(began time.Time) {
	t := r.t
	t.Helper()
	for _, name := range r.names {
		r.procs[name].tell("unlock " + kept(name))
		r.procs[name].awaitEvent("released", kept(name))
	}
	for _, name := range r.names {
		r.procs[name].tell("close")
	}
	for _, p := range r.every {
		if code := p.exitCode(); code != 0 && !slices.Contains(r.hasty, p) {
			t.Errorf("%s ends with code %d, want 0", p.name, code)
		}
		p.none("lost")
		p.none("unreadable")
		p.neverLogged("names must be unique") // a restarted process isn't a duplicate name
	}
	usual, longest, count := time.Duration(0), time.Duration(0), 0
	var all []wait
	for _, p := range r.every {
		all = append(all, p.waits("k")...)
	}
	for _, w := range all {
		if w.to.Before(began) {
			usual = max(usual, w.took())
		}
	}
	for _, w := range all {
		if w.from.Before(began) {
			continue
		}
		count++
		longest = max(longest, w.took())
		if excused := usual + r.crash + r.machine.stood(w.from, w.to); w.took() > unservedMost+excused {
			t.Errorf("%s was unserved for %v; %v of it are excused, since the machine stood still, others waited as long before, or a process ended without a word", w.who, w.took(), excused)
		}
	}
	t.Logf("%d waits, the longest %v; before the restarts the longest was %v", count, longest.Round(time.Millisecond), usual.Round(time.Millisecond))
	if count < 100 {
		t.Errorf("only %d locks were taken; the test has shown little", count)
	}
}

// wait is a request for a lock, from the request to the grant.
type wait struct {
	who      string
	from, to time.Time
}

func (w wait) took() time.Duration { return w.to.Sub(w.from) }

// waits returns the waits of a process for a key, from readiness on: before, the process waits for
// the other nodes, and not for the lock.
func (p *process) waits(key string) (all []wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ready := slices.IndexFunc(p.lines, func(l line) bool { return l.Event == "ready" })
	if ready < 0 {
		return nil
	}
	var asked time.Time
	for _, l := range p.lines[ready:] {
		switch {
		case l.Key != key:
		case l.Event == "waiting":
			asked = l.At
		case l.Event == "granted" && !asked.IsZero():
			all = append(all, wait{fmt.Sprintf("%s at %s", p.name, asked.Format("15:04:05.000")), asked, l.At})
			asked = time.Time{}
		}
	}
	return all
}

// machine records when a goroutine of the test that wants to run every few milliseconds can't: then
// the machine is busy elsewhere, and nodes stand still, too.
type machine struct {
	mu    sync.Mutex
	stops []wait
}

// tickEvery is the period of the goroutine, and tickLate the delay from which on the machine counts
// as having stood still.
const tickEvery, tickLate = 5 * time.Millisecond, 20 * time.Millisecond

func watchMachine(t *testing.T) *machine {
	m := &machine{}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-time.After(tickEvery):
			}
			now := time.Now()
			if now.Sub(last) > tickEvery+tickLate {
				m.mu.Lock()
				m.stops = append(m.stops, wait{from: last, to: now})
				m.mu.Unlock()
			}
			last = now
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return m
}

// stood returns for how long the machine stood still between two instants.
func (m *machine) stood(from, to time.Time) (sum time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stops {
		sum += max(0, earlier(s.to, to).Sub(later(s.from, from)))
	}
	return sum
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
