package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/register"
)

// inCountedBubble runs a test of a mesh with Expect.
func inCountedBubble(t *testing.T, f func(t *testing.T, w *living)) {
	t.Helper()
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.founders = nil
		f(t, w)
	})
}

// expect returns an edit that sets Expect to n.
func expect(n int, edits ...func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Expect, c.Voters, c.StateDir = n, nil, ""
		for _, edit := range edits {
			edit(c)
		}
	}
}

// A mesh is born beside a broken link, whichever two of its processes the link should connect.
func TestABrokenLinkKeepsNoMeshFromItsBirth(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d"}
	for i, v := range names {
		for _, w := range names[i+1:] {
			inCountedBubble(t, func(t *testing.T, l *living) {
				l.Cut(func(from, to string) bool { return from == v && to == w || from == w && to == v })
				for _, name := range names {
					l.start(name, expect(3, func(c *Config) { c.Peers = addrsOf(names...) }))
				}
				l.unlock(l.lock("d", "k"))
			})
		}
	}
}

// A mesh is born beside a process that comes and goes, whether or not the process would be a
// founder.
func TestAMeshIsBornBesideAProcessThatComesAndGoes(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	names := []string{"a", "b", "c", "d"}
	for _, gray := range []string{"a", "d"} {
		for _, registers := range []bool{false, true} {
			inCountedBubble(t, func(t *testing.T, w *living) {
				m := new(register.Memory)
				with := expect(3, func(c *Config) {
					c.Peers = addrsOf(names...)
					if registers {
						c.Register = m
					}
				})
				for _, name := range names {
					w.start(name, with)
				}
				waits := later(func() (*Lease, error) { return w.nodes["b"].Lock(testwait.Within(t, 3*DefaultMaxTTL), "k") })
				for {
					time.Sleep(time.Second)
					w.crash(gray)
					time.Sleep(200 * time.Millisecond)
					w.start(gray, with)
					select {
					case r := <-waits:
						if r.err != nil {
							t.Fatalf("beside %s, with a register %v: %v", gray, registers, r.err)
						}
						w.unlock(r.lease)
						return
					default:
					}
				}
			})
		}
	}
}

// born starts a, b and c, and waits until all three are the voters.
func (w *living) born() {
	w.t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		w.start(name, expect(3))
	}
	for _, name := range []string{"a", "b", "c"} {
		w.ready(name)
	}
	w.untilVoters("a", "a", "b", "c")
}

// From the first start of three processes to the first lock takes MaxTTL, and the margin in which
// the set of founders must not change.
func TestAMeshIsBornByCount(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		began := time.Now()
		w.born()
		took := time.Since(began)
		t.Logf("ready after %v", took)
		if took < DefaultMaxTTL || took > DefaultMaxTTL+3*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, name := range []string{"a", "b", "c"} {
			w.unlock(w.lock(name, "k"))
			s := w.nodes[name].Status().Electorate
			if !s.Dynamic || s.Expect != 3 || s.Version != 1 || s.StoredVersion != 1 || !s.Voter || s.Majority != 2 || s.MaxVoters != DefaultMaxVoters || s.DirID == 0 || s.StateDir != "" {
				t.Errorf("%s: %+v", name, s)
			}
			if text := w.nodes[name].Status().String(); !contains(text, "electorate 1", "Expect 3") || strings.Contains(text, "directory") {
				t.Error(text)
			}
		}
		time.Sleep(time.Minute)
		if n := w.logs.count("the electorate has changed", "version=1 "); n != 3 {
			t.Errorf("%d changes were logged, want one on each of three nodes", n)
		}
		if n := w.logs.count("level=ERROR") + w.logs.count("level=WARN") - w.logs.count("no secret is set"); n != 0 {
			t.Errorf("warnings: %v", w.logs.lines)
		}
	})
}

func TestTooFewProcessesSayWhatTheyWaitFor(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.start("a", expect(3))
		defer func() { // an operator may have the log alone
			if n := w.logs.count("level=WARN", "on=a", "no majority: locks can't be granted", "no electorate is known: waits until 3 processes (Expect) reach each other"); n != 1 {
				t.Errorf("%d lines say what a waits for: %v", n, w.logs.all("no majority"))
			}
		}()
		_, err := w.nodes["a"].Lock(testwait.Within(t, 5*time.Second), "k")
		wantIs(t, err, ErrNoQuorum, context.DeadlineExceeded)
		if !contains(err.Error(), "waits until 3 processes (Expect) reach each other", "reaches no other process") {
			t.Error(err)
		}
		w.start("b", expect(3))
		time.Sleep(5 * time.Minute)
		s := w.nodes["b"].Status().Electorate
		if s.Version != 0 || !strings.Contains(s.Change, "reaches a") {
			t.Errorf("%+v", s)
		}
		w.start("c", expect(3))
		w.ready("a")
		w.unlock(w.lock("a", "k"))
	})
}

// The own address is no trouble: a headless service has it for each of its processes.
func TestTheOwnAddressIsNoTrouble(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.start("a", expect(3, func(c *Config) { c.Peers = []string{wireAddr("a"), wireAddr("b")} }))
		time.Sleep(time.Minute)
		s := w.nodes["a"].Status().Electorate
		if strings.Contains(s.Change, "our own") || !strings.HasSuffix(s.Change, "; connection refused") { // by b
			t.Error(s.Change)
		}
	})
}

// A process of another name takes the place of a voter that ends. No lease of a live process is
// lost, and the lock is served throughout.
func TestAVoterWithoutADiskIsReplaced(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		held := w.lock("b", "held")
		w.start("d", expect(3))
		w.ready("d")
		w.crash("a")
		began, took := time.Now(), time.Duration(0)
		for range 60 {
			w.unlock(w.lock("c", "k"))
			time.Sleep(time.Second)
			if s := w.nodes["b"].Status().Electorate; took == 0 && !s.Joint && slices.Equal(s.names(), []string{"b", "c", "d"}) {
				took = time.Since(began)
			}
		}
		s := w.untilVoters("b", "b", "c", "d")
		t.Logf("replaced within %v", took)
		if took == 0 || took > 46*time.Second {
			t.Errorf("the voter was replaced after %v; fleets.md says 43 s", took)
		}
		if s.Version <= 1 || held.Context().Err() != nil {
			t.Errorf("%+v, lease %v", s, context.Cause(held.Context()))
		}
		w.unlock(held)
		// A new process with the name of a crashed process counts as another process.
		w.start("a", expect(3))
		w.ready("a")
		w.unlock(w.lock("a", "k"))
	})
}

// Three of five voters are gone for good. The others give up the electorate, and bootstrap another
// with a new process. A pending call goes on waiting, and is served.
func TestTotalLossHealsByItself(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		w.start("d", expect(3))
		w.start("e", expect(3))
		w.untilVoters("d", "a", "b", "c", "d", "e")
		was := w.nodes["d"].Status().Electorate
		held := w.lock("d", "held")
		for _, name := range []string{"a", "b", "c"} {
			w.crash(name)
		}
		began := time.Now()
		synctest.Wait()
		waits := make(chan error, 1)
		go func() {
			l, err := w.nodes["e"].Lock(t.Context(), "held")
			if err == nil {
				err = l.Unlock(t.Context())
			}
			waits <- err
		}()
		<-held.Context().Done()
		wantIs(t, held.Unlock(t.Context()), ErrLost)
		if took := time.Since(began); took > DefaultMaxTTL {
			t.Errorf("the lease was valid for %v", took)
		}
		time.Sleep(4 * DefaultMaxTTL)
		if s := w.nodes["d"].Status().Electorate; !contains(s.Lost, "a majority of electorate", "gives the electorate up") {
			t.Errorf("%+v", s)
		}
		w.start("f", expect(3))
		if err := <-waits; err != nil {
			t.Error(err)
		}
		t.Logf("healed after %v", time.Since(began))
		if took := time.Since(began); took > 76*time.Second {
			t.Errorf("the mesh has healed after %v; fleets.md says 72 to 73 s", took)
		}
		s := w.untilVoters("d", "d", "e", "f")
		if s.Version != 1 || s.DirID == was.DirID {
			t.Errorf("%+v", s)
		}
		w.unlock(w.lock("d", "k"))
		if n := w.logs.count("this process gives up the electorate"); n != 2 {
			t.Errorf("%d processes say that they give up", n)
		}
		// The nodes know the new identities, so a new voter can be replaced in turn.
		w.start("g", expect(3))
		w.untilVoters("g", "d", "e", "f")
		w.crash("f")
		w.until("d", "g votes", func(s ElectorateStatus) bool { return !s.Joint && slices.Contains(s.names(), "g") })
	})
}

// A watch outlives the electorate: the watch reports a gap, and the holders afterwards.
func TestAWatchOutlivesAnElectorate(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		w.start("x", expect(3, nonVoting))
		w.ready("x")
		events, err := w.nodes["x"].Watch(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		before := w.lock("a", "k").Token()
		next := func(ok func(Event) bool) Event {
			for e := range events.Events() {
				if ok(e) {
					return e
				}
			}
			t.Fatal("the watch is over")
			return Event{}
		}
		next(func(e Event) bool { return e.Kind == EventGranted && e.Token == before })
		for _, name := range []string{"a", "b", "c"} {
			w.crash(name)
		}
		for _, name := range []string{"d", "e", "f"} {
			w.start(name, expect(3))
		}
		// If x hasn't noticed the end of the voters when the others meet x, they learn of the
		// electorate, d from any of them, and give the electorate up like x.
		_, err = w.nodes["d"].Lock(testwait.Within(t, 30*time.Second), "k")
		waits := contains(fmt.Sprint(err), "knows an electorate", "gives it up after 1m0s")
		if gives := contains(fmt.Sprint(err), "a majority of electorate 1 (a, b, c) is gone", "gives the electorate up"); !waits && !gives {
			t.Error(err)
		}
		if err := w.nodes["d"].Ready(testwait.Within(t, 3*time.Minute)); err != nil {
			t.Fatal(err)
		}
		after := w.lock("d", "k").Token()
		if after <= before {
			t.Errorf("token %d after %d", after, before)
		}
		next(func(e Event) bool { return e.Kind == EventGap })
		next(func(e Event) bool { return e.Kind == EventGranted && e.Token == after })
	})
}

func TestANodeThatNeverVotesFoundsNothing(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.start("a", expect(3, nonVoting))
		w.start("b", expect(3))
		w.start("c", expect(3))
		time.Sleep(time.Minute)
		if s := w.nodes["b"].Status().Electorate; s.Version != 0 {
			t.Errorf("%+v", s)
		}
		w.start("d", expect(3))
		w.ready("a")
		w.untilVoters("a", "b", "c", "d")
		w.unlock(w.lock("a", "k"))
	})
}

func TestALeavingVoterIsReplaced(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		w.start("d", expect(3))
		w.ready("d")
		began := time.Now()
		if err := w.nodes["a"].Leave(testwait.Within(t, 5*time.Minute)); err != nil {
			t.Error(err)
		}
		t.Logf("left after %v", time.Since(began))
		if took := time.Since(began); took > 24*time.Second {
			t.Errorf("the voter has left after %v; fleets.md says 21 s", took)
		}
		w.untilVoters("b", "b", "c", "d")
		// The electorate never has fewer than three voters, so without a replacement a voter stays.
		time.Sleep(time.Minute) // time for a new process to become a standby
		began = time.Now()
		err := w.nodes["b"].Leave(testwait.Within(t, 5*time.Minute))
		wantIs(t, err, ErrStillVoter)
		if strings.Contains(err.Error(), "directory") || !strings.Contains(err.Error(), "no other process is there to take its place") {
			t.Error(err)
		}
		if took := time.Since(began); took < DefaultMaxTTL || took > DefaultMaxTTL+2*time.Second {
			// Leave waits for a replacement, since a process may start only now, as in a rollout.
			t.Errorf("Leave took %v to know that", took)
		}
		w.unlock(w.lock("c", "k"))
	})
}

// TestTheOnlyProcessLeaves: a program on a laptop said at each end that other voters need it.
func TestTheOnlyProcessLeaves(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.start("a", expect(1))
		w.ready("a")
		w.unlock(w.lock("a", "k"))
		if err := w.nodes["a"].Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A voter that leaves stays for its replacement, however late, where the mesh would be lost without
// the voter: another voter has crashed before, and an image may take long to load.
func TestAVoterLeavesNoLostMeshBehind(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	for _, start := range []time.Duration{5 * time.Second, 20 * time.Second} {
		t.Run(fmt.Sprintf("the replacements start after %v", start), func(t *testing.T) {
			inCountedBubble(t, func(t *testing.T, w *living) {
				w.born()
				w.start("x", expect(3, nonVoting))
				w.ready("x")
				w.crash("b")
				time.Sleep(time.Second)
				began, left := time.Now(), make(chan error, 1)
				go func() { left <- w.nodes["a"].Leave(testwait.Within(t, deploymentGrace)) }()
				time.Sleep(start)
				w.start("d", expect(3))
				w.start("e", expect(3))
				if err := <-left; err != nil {
					t.Errorf("Leave: %v", err)
				}
				t.Logf("Leave took %v", time.Since(began))
				w.crash("a") // its process ends
				asked := time.Now()
				w.unlock(w.lock("x", "k"))
				if waited := time.Since(asked); waited > unservedMost {
					t.Errorf("a lock took %v after the end of the voter", waited)
				}
			})
		})
	}
}

// An even number of voters that is the minimum stays so: a voter that is gone is replaced by the
// only process on standby, and one of five voters can leave.
func TestAnEvenMinimumOfVoters(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	four := expect(4, func(c *Config) { c.MinVoters = 4 })
	begin := func(w *living) {
		for _, name := range []string{"a", "b", "c", "d"} {
			w.start(name, four)
		}
		w.untilVoters("a", "a", "b", "c", "d")
	}
	t.Run("crash", func(t *testing.T) {
		inCountedBubble(t, func(t *testing.T, w *living) {
			begin(w)
			w.crash("d")
			time.Sleep(time.Minute) // until d is given up
			w.start("e", four)
			w.untilVoters("a", "a", "b", "c", "e")
		})
	})
	t.Run("leave", func(t *testing.T) {
		inCountedBubble(t, func(t *testing.T, w *living) {
			begin(w)
			w.start("e", four)
			w.untilVoters("b", "a", "b", "c", "d", "e")
			if err := w.nodes["a"].Leave(testwait.Within(t, 30*time.Second)); err != nil {
				t.Error(err)
			}
			w.untilVoters("b", "b", "c", "d", "e")
			// Of four none can go; and of five none beside a voter that is gone.
			time.Sleep(time.Minute)
			began := time.Now()
			wantIs(t, w.nodes["b"].Leave(testwait.Within(t, 5*time.Minute)), ErrStillVoter)
			if took := time.Since(began); took > DefaultMaxTTL+2*time.Second {
				t.Errorf("Leave of one of four took %v", took)
			}
			w.unlock(w.lock("c", "k"))
		})
	})
	t.Run("leave beside a crash", func(t *testing.T) {
		inCountedBubble(t, func(t *testing.T, w *living) {
			begin(w)
			w.start("e", four)
			w.untilVoters("b", "a", "b", "c", "d", "e")
			w.crash("e")
			time.Sleep(time.Minute)
			began := time.Now()
			err := w.nodes["a"].Leave(testwait.Within(t, 5*time.Minute))
			wantIs(t, err, ErrStillVoter)
			if took := time.Since(began); took > DefaultMaxTTL+2*time.Second || !contains(err.Error(), "electorate 3 (a, b, c, d, e)", "no other process is there to take its place") {
				t.Errorf("after %v: %v", took, err)
			}
			w.unlock(w.lock("b", "k"))
		})
	})
}

// One of two voters leaves in a rollout without a surge: its replacement is started only then, and
// takes its place. Without a replacement the voter stays for as long as the caller allows, since
// the other voter can't decide anything alone.
func TestOneOfTwoVotersIsReplaced(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		for _, name := range []string{"a", "b"} {
			w.start(name, expect(2))
		}
		w.untilVoters("b", "a", "b")
		held := w.lock("b", "held")
		left := make(chan error, 1)
		go func() { left <- w.nodes["a"].Leave(testwait.Within(t, 5*time.Minute)) }()
		time.Sleep(2 * time.Second)
		w.start("c", expect(2))
		if err := <-left; err != nil {
			t.Error(err)
		}
		w.untilVoters("b", "b", "c")
		w.unlock(w.lock("c", "k"))
		if err := held.Err(); err != nil {
			t.Error(err)
		}
		const grace = 3 * DefaultMaxTTL
		began := time.Now()
		wantIs(t, w.nodes["c"].Leave(testwait.Within(t, grace)), ErrStillVoter)
		if took := time.Since(began); took < grace-5*time.Second || took > grace {
			t.Errorf("without a replacement Leave took %v", took)
		}
	})
}

// TestAMeshScaledToZeroLeavesAtOnce shows that three processes leave at the same time without
// waiting for each other, since no process can be replaced.
func TestAMeshScaledToZeroLeavesAtOnce(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		time.Sleep(time.Minute)
		began := time.Now()
		var leaving sync.WaitGroup
		for name, m := range w.nodes {
			leaving.Go(func() {
				if err := m.Leave(testwait.Within(t, 5*time.Minute)); !errors.Is(err, ErrStillVoter) {
					t.Errorf("%s leaves with %v", name, err)
				}
			})
		}
		leaving.Wait()
		if took := time.Since(began); took > 2*DefaultMaxTTL {
			t.Errorf("it took %v", took)
		}
	})
}

// A voter that has just crashed, and may come back as far as is known, keeps none of the others
// that all leave.
func TestAMeshScaledToZeroBesideACrashLeavesAtOnce(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		time.Sleep(time.Minute)
		w.crash("c")
		time.Sleep(3 * time.Second)
		began := time.Now()
		var leaving sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			leaving.Go(func() {
				if err := w.nodes[name].Leave(testwait.Within(t, 55*time.Second)); !errors.Is(err, ErrStillVoter) {
					t.Errorf("%s leaves with %v", name, err)
				}
			})
		}
		leaving.Wait()
		if took := time.Since(began); took > DefaultMaxTTL {
			t.Errorf("it took %v", took)
		}
	})
}

// The only process of a mesh of one waits for nothing.
func TestAMeshOfOneProcessLocksAtOnce(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		began := time.Now()
		w.start("a", expect(1))
		w.unlock(w.lock("a", "k"))
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		w.crash("a")
		w.start("a", expect(1))
		w.unlock(w.lock("a", "k"))
		if took := time.Since(began); took != 0 {
			t.Errorf("with a restart it took %v", took)
		}
	})
}

func TestDifferentExpectationsRefuseEachOther(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		peers := func(c *Config) { c.Peers = []string{wireAddr("a"), wireAddr("b"), wireAddr("c")} }
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, expect(3, peers))
		}
		w.ready("a")
		w.start("d", expect(5, peers))
		_, err := w.nodes["d"].Lock(testwait.Within(t, time.Minute), "k")
		wantIs(t, err, ErrRefused)
		if !contains(err.Error(), "Expect is 5", "3 at ") {
			t.Error(err)
		}
		wantIs(t, w.nodes["d"].Ready(testwait.Within(t, time.Minute)), ErrRefused)
		w.unlock(w.lock("a", "k"))
		if r := w.nodes["a"].Status().Refused; len(r) != 1 || r[0].Name != "d" || !contains(r[0].Reason, "Expect is 3 here and 5 at d") {
			t.Errorf("a refuses %+v", r)
		}
	})
}

// A process that is refused wherever it looks, such as with another secret, says so at the end of
// its wait. It goes on waiting: the address of another mesh, out of date, doesn't fail a first
// start.
func TestAProcessThatAllOthersRefuseIsRefused(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inCountedBubble(t, func(t *testing.T, w *living) {
		with := func(secret Secret, peers ...string) func(*Config) {
			return expect(3, func(c *Config) { c.Secret, c.Insecure, c.Peers = secret, false, peers })
		}
		old, fresh := NewSecret(), NewSecret()
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, with(old, wireAddr("a"), wireAddr("b")))
		}
		w.ready("a")
		w.start("s", with(fresh, wireAddr("a"), wireAddr("b"), wireAddr("s"), wireAddr("t")))
		for _, wait := range []func(context.Context) error{w.nodes["s"].Ready, w.nodes["s"].Settled} {
			began := time.Now()
			err := wait(testwait.Within(t, time.Minute))
			wantIs(t, err, ErrRefused, context.DeadlineExceeded)
			if took := time.Since(began); took != time.Minute || !contains(err.Error(), "waits until 3 processes (Expect)", "the secrets differ") {
				t.Errorf("%v after %v", err, took)
			}
		}
		_, err := w.nodes["s"].Lock(testwait.Within(t, time.Minute), "k")
		wantIs(t, err, ErrNoQuorum)

		// Another process with the new secret accepts this one, and two are too few for a birth.
		// With a third there is another mesh.
		w.start("t", with(fresh, wireAddr("a"), wireAddr("s")))
		time.Sleep(time.Minute)
		for _, name := range []string{"s", "t"} {
			wantIs(t, w.nodes[name].Ready(testwait.Within(t, time.Second)), ErrRefused, context.DeadlineExceeded)
			if text := w.nodes[name].Status().Electorate.Change; !contains(text, "refuses this node") {
				t.Errorf("%s waits, and doesn't say that it is refused: %s", name, text)
			}
		}
		w.start("u", with(fresh, wireAddr("s")))
		w.ready("s")
		w.unlock(w.lock("t", "k"))
	})
}

// An address of another mesh that isn't found any more refuses no process.
func TestARefusalEndsWithItsAddress(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.start("a", expect(3, func(c *Config) { c.Mesh = "another" }))
		var found atomic.Pointer[[]string]
		found.Store(&[]string{wireAddr("a"), wireAddr("s")})
		w.start("s", expect(3, func(c *Config) {
			c.Peers, c.Discover = nil, func(context.Context) ([]string, error) { return *found.Load(), nil }
		}))
		time.Sleep(time.Minute)
		wantIs(t, w.nodes["s"].Ready(testwait.Within(t, time.Second)), ErrRefused)
		found.Store(new([]string)) // no answer at all says nothing
		time.Sleep(time.Minute)
		wantIs(t, w.nodes["s"].Ready(testwait.Within(t, time.Second)), ErrRefused)
		found.Store(&[]string{wireAddr("s")})
		time.Sleep(time.Minute)
		wantIs(t, w.nodes["s"].Ready(testwait.Within(t, time.Second)), ErrNoQuorum)
	})
}

// A process with another MaxTTL takes part, and the log says that the promise needs a register.
func TestAnotherMaxTTLNeedsARegister(t *testing.T) {
	const warning = "two holders"
	longer := func(c *Config) { c.MaxTTL = 2 * DefaultMaxTTL }
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		w.start("d", expect(3, longer))
		w.until("d", "the electorate", func(s ElectorateStatus) bool { return s.Version > 0 })
		time.Sleep(time.Minute)
		if n := w.logs.count("level=WARN", "on=d", "MaxTTL is 20s on this node", warning, "Register"); n != 1 {
			t.Errorf("%d warnings", n)
		}
	})
	inCountedBubble(t, func(t *testing.T, w *living) {
		m := new(register.Memory)
		w.bornRegistered(m)
		w.start("d", expect(3, longer, func(c *Config) { c.Register = m }))
		w.until("d", "the electorate", func(s ElectorateStatus) bool { return s.Version > 0 })
		time.Sleep(time.Minute)
		if n := w.logs.count("level=WARN", "on=d", "MaxTTL is 20s on this node"); n != 1 || w.logs.count(warning) != 0 {
			t.Errorf("%d warnings: %v", n, w.logs.all(warning))
		}
	})
}

// Processes that come back under their names are other processes: no text speaks of a directory,
// which a mesh with Expect hasn't got.
func TestNoDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	sampled.Unraced(t)
	for _, gone := range [][]string{{"c"}, {"b", "c"}} {
		t.Run(strings.Join(gone, ""), func(t *testing.T) {
			inCountedBubble(t, func(t *testing.T, w *living) {
				w.born()
				for _, name := range gone {
					w.crash(name)
					w.start(name, expect(3))
				}
				said := 0
				for range 900 {
					time.Sleep(100 * time.Millisecond)
					for _, m := range w.nodes {
						text := m.Status().String()
						if strings.Contains(text, "directory") {
							t.Fatal(text)
						}
						said += strings.Count(text, "another process of its name")
					}
				}
				if said == 0 {
					t.Error("no status says that the process is another one")
				}
				if lines := w.logs.all("directory"); len(lines) > 0 {
					t.Error(lines)
				}
				for name := range w.nodes {
					w.unlock(w.lock(name, "k"))
				}
			})
		})
	}
}

func TestRecoverIsForMeshesWithDirectories(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.start("a", expect(3))
		err := w.nodes["a"].Recover(t.Context(), "a")
		wantIs(t, err, ErrConfig)
		if !contains(err.Error(), "heals by itself") {
			t.Error(err)
		}
	})
}

func TestAProcessWithoutANameGetsARandomOne(t *testing.T) {
	names := make(map[string]bool)
	for _, host := range []string{"web", strings.Repeat("é", vote.MaxNameLen)} {
		for range 100 {
			name := randomName(host)
			if problem := badName(name); problem != "" || names[name] || !strings.HasPrefix(name, host[:2]) {
				t.Fatalf("%q: %s", name, problem)
			}
			names[name] = true
		}
	}
	c, err := Config{Expect: 3}.withDefaults()
	if err != nil || !strings.Contains(c.Name, "-") || c.MinVoters != 3 || c.MaxVoters != DefaultMaxVoters {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _ := (Config{Expect: 9}).withDefaults(); c.MaxVoters != 9 || c.MinVoters != 3 {
		t.Errorf("%+v", c)
	}
	if c, _ := (Config{Expect: 2, Name: "a"}).withDefaults(); c.MinVoters != 2 || c.Name != "a" {
		t.Errorf("%+v", c)
	}
}

func TestBadExpectations(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*Config)
		says []string
	}{
		{"three", func(*Config) {}, nil},
		{"safer", func(c *Config) { c.Expect, c.MinVoters = 5, 5 }, nil},
		{"negative", func(c *Config) { c.Expect = -1 }, []string{"Expect: -1 is negative", "usually 3"}},
		{"too many", func(c *Config) { c.Expect = 64 }, []string{"Expect: 64 is more than 63"}},
		{"more than the electorate", func(c *Config) { c.Expect, c.MaxVoters = 5, 3 }, []string{"MaxVoters: 3 is less than Expect, 5"}},
		{"with Voters", func(c *Config) { c.Voters = []string{"a"} }, []string{"either a list of voters or a number"}},
		{"with StateDir", func(c *Config) { c.StateDir = "/state" }, []string{"have no StateDir"}},
		{"with Bootstrap", func(c *Config) { c.Bootstrap = true }, []string{"Bootstrap: a mesh with Expect founds itself"}},
		{"few MinVoters", func(c *Config) { c.MinVoters = -2 }, []string{"MinVoters: -2 is negative"}},
		{"many MinVoters", func(c *Config) { c.MinVoters = 4 }, []string{"MinVoters: 4 is more than Expect, 3"}},
		{"MinVoters alone", func(c *Config) { c.Expect, c.MinVoters, c.Voters = 0, 3, []string{"a"} }, []string{"MinVoters: it applies to a mesh with Expect only"}},
		{"one with peers", func(c *Config) { c.Expect, c.Peers = 1, []string{"127.0.0.1:1"} }, []string{"Peers: a mesh of one process", "set Expect to 3"}},
		{"a register", func(c *Config) { c.Register = new(register.Memory) }, nil},
		{"a register without Expect", func(c *Config) { c.Expect, c.Voters, c.Register = 0, []string{"a"}, new(register.Memory) }, []string{"Register: it applies to a mesh with Expect only"}},
		{"one with a register", func(c *Config) { c.Expect, c.Register = 1, new(register.Memory) }, []string{"Register: a mesh of one process"}},
		{"a term without a register", func(c *Config) { c.RegisterTerm = time.Minute }, []string{"RegisterTerm: it applies to a mesh with a Register only"}},
		{"a short term", func(c *Config) { c.Register, c.RegisterTerm = new(register.Memory), time.Second }, []string{"RegisterTerm: 1s is less than MaxTTL, 10s"}},
		{"a long term", func(c *Config) { c.Register, c.RegisterTerm = new(register.Memory), 1000*time.Hour }, []string{"RegisterTerm: 1000h0m0s is more than 168h0m0s"}},
		{"a negative term", func(c *Config) { c.Register, c.RegisterTerm = new(register.Memory), -1 }, []string{"RegisterTerm: -1ns is less than MaxTTL"}},
		{"one that doesn't vote", func(c *Config) { c.Expect, c.NonVoting = 1, true }, []string{"NonVoting: a mesh of one process"}},
	} {
		c := Config{Expect: 3, Bind: "127.0.0.1:0"}
		row.edit(&c)
		err := c.Validate()
		if len(row.says) == 0 {
			if err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
			continue
		}
		if !errors.Is(err, ErrConfig) || !contains(fmt.Sprint(err), row.says...) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestTwoExpectedProcessesAreWarned shows the warning about Expect 2: two voters tolerate no
// failure, though two processes look redundant.
func TestTwoExpectedProcessesAreWarned(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		for _, name := range []string{"a", "b"} {
			w.start(name, expect(2))
		}
		w.ready("a")
		if n := w.logs.count("level=WARN", "Expect is 2: two voters survive no failure"); n != 2 {
			t.Errorf("%d nodes warn: %v", n, w.logs.lines)
		}
	})
}

// A survivor of a lost mesh that isn't among the next founders becomes a voter later, under its new
// identity, known to the others by gossip.
func TestASurvivorIsVotedInUnderItsNewIdentity(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		for _, name := range []string{"x", "y", "z"} {
			w.start(name, expect(3))
		}
		w.untilVoters("z", "x", "y", "z")
		was := w.nodes["z"].Status().Electorate.DirID
		w.crash("x")
		w.crash("y")
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, expect(3))
		}
		w.untilVoters("a", "a", "b", "c")
		w.ready("z")
		w.crash("c")
		w.untilVoters("a", "a", "b", "z")
		if now := w.nodes["z"].Status().Electorate.DirID; now == was {
			t.Error("z has kept its identity")
		}
		w.unlock(w.lock("z", "k"))
	})
}
