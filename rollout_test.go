package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/register"
)

// deploymentGrace is the time for a process to leave: SERVICE_GRACE of the manifests with Expect.
const deploymentGrace = 55 * time.Second

// holdFor is how long a node of a burden holds the lock: shorter in the hunt, so that more requests
// meet each change.
var holdFor = time.Duration(sampled.Count(100, 20)) * time.Millisecond

// burden is the work of three nodes without a vote while the other processes are replaced: x and y
// take one lock over and over, and z holds another lock throughout.
type burden struct {
	w      *living
	nodes  map[string]chan *Mesh // of x and y; empty while the node is in use
	stop   chan struct{}
	waits  chan time.Duration // the longest wait of each node
	inside atomic.Int32       // the holders of the lock
	taken  atomic.Int64       // the acquisitions of the lock
	held   *Lease
}

// burden starts the three nodes and their work.
func (w *living) burden(edit func(*Config)) *burden {
	w.t.Helper()
	b := &burden{w: w, nodes: make(map[string]chan *Mesh), stop: make(chan struct{}), waits: make(chan time.Duration, 2)}
	for _, name := range []string{"x", "y", "z"} {
		w.start(name, func(c *Config) { edit(c); nonVoting(c) })
		w.ready(name)
	}
	b.held = w.lock("z", "held")
	for _, name := range []string{"x", "y"} {
		turn := make(chan *Mesh, 1)
		turn <- w.nodes[name]
		b.nodes[name] = turn
		go b.works(turn)
	}
	return b
}

// works takes the lock until the burden ends.
func (b *burden) works(turn chan *Mesh) {
	longest := time.Duration(0)
	defer func() { b.waits <- longest }()
	for {
		select {
		case <-b.stop:
			return
		default:
		}
		m := <-turn
		asked := time.Now()
		l, err := m.Lock(b.w.t.Context(), "k")
		if err != nil {
			b.w.t.Errorf("%s: %v", m.Name(), err)
			turn <- m
			return
		}
		longest = max(longest, time.Since(asked))
		if b.inside.Add(1) > 1 {
			b.w.t.Errorf("%s has the lock, and so has another", m.Name())
		}
		b.taken.Add(1)
		time.Sleep(holdFor)
		b.inside.Add(-1)
		if err := l.Unlock(b.w.t.Context()); err != nil {
			b.w.t.Errorf("%s: %v", m.Name(), err)
		}
		turn <- m
	}
}

// restart replaces x or y by a process with another configuration, between two locks of the node.
func (b *burden) restart(name string, edit func(*Config)) {
	b.w.t.Helper()
	m := <-b.nodes[name]
	if err := m.Stop(testwait.Within(b.w.t, time.Minute)); err != nil {
		b.w.t.Error(err)
	}
	b.w.start(name, func(c *Config) { edit(c); nonVoting(c) })
	b.w.ready(name)
	b.nodes[name] <- b.w.nodes[name]
}

// end ends the burden, and fails the test if a caller waited for too long or a lease was lost.
func (b *burden) end() {
	t := b.w.t
	t.Helper()
	close(b.stop)
	longest := max(<-b.waits, <-b.waits)
	t.Logf("the lock was taken %d times, and the longest wait was %v", b.taken.Load(), longest)
	if longest > unservedMost {
		t.Errorf("the lock was unserved for %v", longest)
	}
	if err := b.held.Err(); err != nil {
		t.Errorf("a lease was lost: %v", err)
	}
}

// rollout replaces processes of a mesh with Expect, one after the other.
type rollout struct {
	w     *living
	surge bool          // a new process is settled before an old process begins to end
	pause time.Duration // without a surge: from the start of an end to the next start
	// overlap lets the next replacement begin while a process still ends, as orchestrators do.
	overlap bool
	grace   time.Duration
	// drain is how long an old process holds a lock of its own at its end; zero for no such lock.
	drain time.Duration
	alive atomic.Int32
	most  int32
}

// start starts and counts a process.
func (r *rollout) start(name string, edit func(*Config)) {
	r.w.t.Helper()
	r.w.start(name, edit)
	r.most = max(r.most, r.alive.Add(1))
}

// found starts the first processes, and waits until all are voters.
func (r *rollout) found(names []string, edit func(*Config)) {
	r.w.t.Helper()
	for _, name := range names {
		r.start(name, edit)
	}
	for _, name := range names {
		r.w.ready(name)
	}
	r.untilVoted(names[0], names)
}

// untilVoted waits until a node sees processes of a list as the voters: an odd number of them.
func (r *rollout) untilVoted(name string, of []string) {
	r.w.t.Helper()
	r.w.until(name, fmt.Sprintf("%v vote", of), func(s ElectorateStatus) bool {
		voters := s.names()
		return !s.Joint && len(voters) == (len(of)-1)|1 &&
			!slices.ContainsFunc(voters, func(v string) bool { return !slices.Contains(of, v) })
	})
}

// replace replaces each process of a list by the next process of another list, and waits until the
// new processes are the voters.
func (r *rollout) replace(old, next []string, edit func(*Config)) {
	t := r.w.t
	t.Helper()
	began, left := time.Now(), make(chan error, len(old))
	leave := func(name string, m *Mesh) {
		ctx, cancel := context.WithTimeout(context.Background(), r.grace)
		defer cancel()
		if r.drain > 0 {
			r.work(ctx, name, m)
		}
		err := m.Leave(ctx)
		r.alive.Add(-1)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		left <- err
	}
	waits := 0
	for i, name := range next {
		if !r.surge {
			go leave(old[i], r.w.nodes[old[i]])
			time.Sleep(r.pause) // the old process begins to end before the new process begins
		}
		r.start(name, edit)
		if err := r.w.nodes[name].Settled(testwait.Within(t, 5*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if r.surge {
			go leave(old[i], r.w.nodes[old[i]])
		}
		delete(r.w.nodes, old[i])
		if waits++; !r.overlap {
			if err := <-left; err != nil {
				t.Error(err)
			}
			waits--
		}
	}
	for range waits {
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
	r.untilVoted("z", next)
	t.Logf("%d processes were replaced within %v", len(old), time.Since(began))
}

// work has an old process drain while it holds a lock.
func (r *rollout) work(ctx context.Context, name string, m *Mesh) {
	r.w.t.Helper()
	l, err := m.Lock(ctx, "of "+name)
	if err != nil {
		r.w.t.Error(err)
		return
	}
	drain, cancel := context.WithTimeout(ctx, r.drain)
	defer cancel()
	if err := m.Drain(drain); !errors.Is(err, ErrHeld) {
		r.w.t.Errorf("%s drained with %v", name, err)
	}
	if err := l.Err(); err != nil {
		r.w.t.Errorf("%s lost its lock while it drained: %v", name, err)
	}
}

// A Deployment replaces its processes one after the other: each new process is started beside the
// others; once the new process is settled, an old process begins to leave, and the next new process
// is started. A lock is served throughout.
func TestARolloutBySettledServesAllTheWhile(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d processes", n), func(t *testing.T) {
			inCountedBubble(t, func(t *testing.T, w *living) {
				old, next := []string{"a", "b", "c", "d", "e"}[:n], []string{"f", "g", "h", "i", "j"}[:n]
				with := expect(3, registered(new(register.Memory)))
				r := &rollout{w: w, surge: true, overlap: true, grace: deploymentGrace}
				r.found(old, with)
				b := w.burden(with)
				r.replace(old, next, with)
				b.end()
			})
		})
	}
}

// A Deployment without a surge lets one process end, starts another in its place at once, and goes
// on once the new process is settled. No register is needed: with the ending process, no more
// processes run at a time than the promise of Expect allows, also where an ending process drains
// for longer than its replacement takes to be settled. A lock is served throughout.
func TestARolloutWithoutASurgeServesAllTheWhile(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	sampled.Unraced(t)
	for i, n := range []int{3, 4, 5} {
		for j, c := range []struct{ pause, drain time.Duration }{
			{time.Millisecond, 0},
			{5 * time.Second, 0},
			{time.Millisecond, time.Minute},
		} {
			if !sampled.Case(3*i+j, 4) {
				continue
			}
			t.Run(fmt.Sprintf("%d processes, the next after %v, drained for %v", n, c.pause, c.drain), func(t *testing.T) {
				inCountedBubble(t, func(t *testing.T, w *living) {
					old, next := []string{"a", "b", "c", "d", "e"}[:n], []string{"f", "g", "h", "i", "j"}[:n]
					r := &rollout{w: w, overlap: true, grace: deploymentGrace + c.drain, pause: c.pause, drain: c.drain}
					r.found(old, expect(n))
					b := w.burden(expect(n))
					r.replace(old, next, expect(n))
					b.end()
					const smallestMajority = 2 // of the MinVoters, three
					if most := int(r.most); most != n+1 || most >= n+smallestMajority {
						t.Errorf("%d processes ran at a time", most)
					}
				})
			})
		}
	}
}

// The maximum TTL of a mesh with Expect is raised, and lowered again, by a rollout each, with a
// register and without.
func TestMaxTTLIsChangedByRollouts(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	sampled.Unraced(t)
	const short, long = DefaultMaxTTL, 2 * DefaultMaxTTL
	for _, hasRegister := range []bool{true, false} {
		t.Run(fmt.Sprintf("with a register %v", hasRegister), func(t *testing.T) {
			inCountedBubble(t, func(t *testing.T, w *living) {
				m := new(register.Memory)
				with := func(maxTTL time.Duration) func(*Config) {
					return expect(3, func(c *Config) {
						c.MaxTTL = maxTTL
						if hasRegister {
							c.Register = m
						}
					})
				}
				// A voter takes two MaxTTL and a second to leave, and in a fleet without a register
				// only one process may end at a time.
				r := &rollout{w: w, surge: true, overlap: hasRegister, grace: 2*long + 5*time.Second}
				names := [][]string{{"a", "b", "c"}, {"d", "e", "f"}, {"g", "h", "i"}}
				r.found(names[0], with(short))
				b := w.burden(with(short))
				for i, maxTTL := range []time.Duration{long, short} {
					r.replace(names[i], names[i+1], with(maxTTL))
					b.restart("x", with(maxTTL)) // y and z keep their configuration
					for _, name := range []string{"x", "y", "z", names[i+1][0]} {
						w.until(name, "a MaxTTL of "+maxTTL.String(), func(s ElectorateStatus) bool { return s.MaxTTL == maxTTL && !s.Joint })
					}
				}
				b.end()
				if !hasRegister && r.most > 4 {
					t.Errorf("%d processes ran at a time", r.most)
				}
			})
		})
	}
}

// The secret of a mesh with Expect is changed by three rollouts: all nodes accept both secrets,
// then send the new secret, then drop the old secret.
func TestTheSecretIsChangedByRollouts(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		old, fresh := NewSecret(), NewSecret()
		with := func(secrets ...Secret) func(*Config) {
			return expect(3, func(c *Config) { c.Secrets, c.Insecure = secrets, false })
		}
		r := &rollout{w: w, surge: true, grace: deploymentGrace}
		names := [][]string{{"a", "b", "c"}, {"d", "e", "f"}, {"g", "h", "i"}, {"j", "k", "l"}}
		r.found(names[0], with(old))
		b := w.burden(with(old))
		for i, secrets := range [][]Secret{{old, fresh}, {fresh, old}, {fresh}} {
			r.replace(names[i], names[i+1], with(secrets...))
			for _, name := range []string{"x", "y"} {
				b.restart(name, with(secrets...))
			}
			// z holds a lease, so z isn't restarted.
			if err := w.nodes["z"].SetSecrets(secrets...); err != nil {
				t.Fatal(err)
			}
			all := append(slices.Clone(names[i+1]), "x", "y", "z")
			for limit := time.Now().Add(time.Minute); !isStepDone(w.nodes["z"].Status().Secrets, len(secrets), all); time.Sleep(time.Second) {
				if time.Now().After(limit) {
					t.Fatalf("step %d isn't complete: %+v", i+1, w.nodes["z"].Status().Secrets)
				}
			}
		}
		b.end()
		if r.most > 4 {
			t.Errorf("%d processes ran at a time", r.most)
		}
		w.start("s", expect(3, with(old), func(c *Config) { c.Peers = []string{wireAddr("j"), wireAddr("k")} })) // a stranger now
		wantIs(t, w.nodes["s"].Ready(testwait.Within(t, time.Minute)), ErrRefused, context.DeadlineExceeded)
		w.unlock(w.lock("j", "other"))
	})
}

// isStepDone reports whether all live nodes accept each of some secrets, and send the same secret.
func isStepDone(all []SecretStatus, secrets int, names []string) bool {
	sent := 0
	for _, s := range all {
		if !slices.Equal(s.AcceptedBy, names) {
			return false
		}
		if slices.Equal(s.SentBy, names) {
			sent++
		}
	}
	return len(all) == secrets && sent == 1
}

// Many processes end at once, all voters among them, and three stay that don't vote: the leaving
// voters vote in those that stay, and end. A lock is served throughout.
func TestScalingDownServesAllTheWhile(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		with := expect(3, registered(new(register.Memory)))
		var all []string
		for name := 'a'; name < 'x'; name++ {
			all = append(all, string(name))
		}
		r := &rollout{w: w}
		r.found(all[:3], with)
		b := w.burden(with)
		for _, name := range all[3:] {
			w.start(name, with)
			w.ready(name)
		}
		time.Sleep(2 * time.Minute)
		voters := w.nodes["x"].Status().Electorate.Voters
		stay := all[20:]
		for _, v := range voters {
			if slices.Contains(stay, v.Name) {
				t.Fatalf("%s votes: choose others that stay", v.Name)
			}
		}
		left := make(chan error, len(all))
		began := time.Now()
		for _, name := range all[:20] {
			go func() { left <- w.nodes[name].Leave(testwait.Within(t, time.Minute)) }()
		}
		for range all[:20] {
			if err := <-left; err != nil {
				t.Error(err)
			}
		}
		took := time.Since(began)
		t.Logf("all but %v ended within %v", stay, took)
		if took > 4*DefaultMaxTTL {
			t.Errorf("it took %v to vote in those that stay", took)
		}
		for _, name := range all[:20] {
			delete(w.nodes, name)
		}
		w.untilVoters("z", stay...)
		b.end()
	})
}
