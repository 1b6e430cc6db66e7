package meshtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestFaults(t *testing.T) {
	sampled.Computes(t)
	for _, row := range []struct {
		name string
		test func(t *testing.T, m *meshtest.Mesh)
	}{
		{"a crashed holder's key is free at its deadline and not before", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			time.Sleep(2 * ttl) // all voters know, and sessions are refreshed all together
			deadline := first.Deadline()
			m.Crash("a")
			wantIs(t, first.Err(), lockmesh.ErrLost, lockmesh.ErrClosed)
			wantIs(t, tryLock(t, m.Node("b")), lockmesh.ErrHeld)
			second := lock(t, m.Node("b"))
			if late := time.Since(deadline); late < 0 || late > time.Second {
				t.Errorf("the next holder came %v after the deadline", late)
			}
			mustHaveLargerToken(t, second, first)
		}},
		{"of two crashed voters of three the third grants nothing", func(t *testing.T, m *meshtest.Mesh) {
			m.Crash("b")
			m.Crash("c")
			wantIs(t, tryLock(t, m.Node("a")), lockmesh.ErrNoQuorum)
			m.Restart("b")
			m.Ready("a", "b")
			mustBeHeld(t, lock(t, m.Node("a")))
		}},
		{"a voter that has started again is quiet and then counts", func(t *testing.T, m *meshtest.Mesh) {
			first := m.Node("b").Status()
			m.Crash("b")
			m.Crash("c")
			b := m.Restart("b")
			m.Restart("c") // otherwise no voter could report the highest tokens to b
			if s := b.Status(); s.Name != first.Name || s.Addr != first.Addr || s.Incarnation == first.Incarnation || b != m.Node("b") {
				t.Errorf("%v follows %v", s, first)
			}
			time.Sleep(ttl / 2)
			if v := m.Node("a").Status().Electorate.Voters[1]; v.State != lockmesh.VoterQuiet || v.Quiet > ttl/2+time.Second {
				t.Errorf("%+v", v)
			}
			wantIs(t, tryLock(t, m.Node("a")), lockmesh.ErrNoQuorum)
			m.Ready()
			mustBeHeld(t, lock(t, m.Node("a")))
		}},
		{"a node that runs is crashed by its restart", func(t *testing.T, m *meshtest.Mesh) {
			old := m.Node("a")
			first := lock(t, old)
			young := m.Restart("a")
			wantIs(t, first.Err(), lockmesh.ErrLost, lockmesh.ErrClosed)
			mustHaveLargerToken(t, lock(t, young), first)
		}},
		{"a lease outlives a rolling restart", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			for _, name := range []string{"b", "c", "b", "c"} {
				m.Restart(name)
				m.Ready()
				time.Sleep(time.Minute)
			}
			mustBeHeld(t, first)
		}},
		{"a minority loses its lease before the majority grants it", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			m.Partition([]string{"a"}, []string{"b", "c"})
			mustBeHeld(t, first) // for a while
			second := lock(t, m.Node("b"))
			wantIs(t, first.Err(), lockmesh.ErrLost)
			mustHaveLargerToken(t, second, first)
			wantIs(t, tryLock(t, m.Node("a")), lockmesh.ErrNoQuorum)
			m.Heal()
			m.Ready("a")
			mustBeHeld(t, second)
			wantIs(t, tryLock(t, m.Node("a")), lockmesh.ErrHeld)
		}},
		{"a majority keeps its lease, and the minority gets it after healing", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("b"))
			m.Partition([]string{"a"})
			got := lockAsync(t, m.Node("a"), "k")
			time.Sleep(time.Minute)
			mustBeHeld(t, first)
			if err := first.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			select {
			case <-got:
				t.Fatal("a got it through a partition")
			case <-time.After(time.Minute):
			}
			m.Heal()
			mustHaveLargerToken(t, (<-got).get(t), first)
		}},
		{"three groups have no majority", func(t *testing.T, m *meshtest.Mesh) {
			m.Partition([]string{"a"}, []string{"b"}, []string{"c"})
			for _, n := range m.Nodes() {
				wantIs(t, tryLock(t, n), lockmesh.ErrNoQuorum)
			}
			m.Partition([]string{"a", "b"})
			m.Ready("a", "b")
			if err := tryLock(t, m.Node("b")); err != nil {
				t.Error(err)
			}
		}},
		{"a short partition costs nothing", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			for range 10 {
				m.Partition([]string{"a"}, []string{"b"}, []string{"c"})
				time.Sleep(ttl / 4)
				m.Heal()
				time.Sleep(ttl)
			}
			mustBeHeld(t, first)
		}},
		{"who hears nobody loses its lease", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			m.Cut("b", "a")
			m.Cut("c", "a")
			mustHaveLargerToken(t, lock(t, m.Node("b")), first)
			wantIs(t, first.Err(), lockmesh.ErrLost)
		}},
		{"who is heard by nobody loses its lease", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			m.Cut("a", "b")
			m.Cut("a", "c")
			mustHaveLargerToken(t, lock(t, m.Node("b")), first)
			wantIs(t, first.Err(), lockmesh.ErrLost)
		}},
		{"one way of six that is cut hurts nobody", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			m.Cut("a", "b")
			time.Sleep(time.Minute)
			mustBeHeld(t, first)
			if v := m.Node("a").Status().Electorate.Voters[1]; v.State == lockmesh.VoterReachable {
				t.Errorf("%+v", v)
			}
			if v := m.Node("c").Status().Electorate.Voters[1]; v.State != lockmesh.VoterReachable {
				t.Errorf("%+v", v)
			}
			m.Heal()
			time.Sleep(ttl)
			if v := m.Node("a").Status().Electorate.Voters[1]; v.State != lockmesh.VoterReachable {
				t.Errorf("%+v", v)
			}
		}},
		{"a crash behind a cut isn't seen and ends the lease", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			m.Partition([]string{"a"})
			m.Crash("a")
			synctest.Wait()
			if v := m.Node("b").Status().Electorate.Voters[0]; v.State != lockmesh.VoterReachable {
				t.Errorf("b has seen it: %+v", v)
			}
			mustHaveLargerToken(t, lock(t, m.Node("b")), first)
			m.Heal()
			m.Restart("a")
			m.Ready()
		}},
		{"a clock set ahead costs the node its lease and no other node anything", func(t *testing.T, m *meshtest.Mesh) {
			mine, theirs := lock(t, m.Node("a")), lockKey(t, m.Node("b"), "theirs")
			m.SetClock("a", time.Hour)
			m.SetClock("c", 24*time.Hour)
			wantIs(t, mine.Err(), lockmesh.ErrLost)
			_, err := m.Node("c").TryLock(t.Context(), "theirs")
			wantIs(t, err, lockmesh.ErrHeld)
			time.Sleep(time.Minute)
			mustBeHeld(t, theirs)
			if ahead := time.Until(lock(t, m.Node("a")).Deadline()); ahead < time.Hour-ttl || ahead > time.Hour+ttl {
				t.Errorf("a's clock is an hour ahead, and its lease ends in %v", ahead)
			}
		}},
		{"a clock set back costs nothing, and outlasts a crash", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			m.SetClock("a", -time.Hour)
			time.Sleep(time.Minute)
			mustBeHeld(t, first)
			second := lock(t, m.Restart("a"))
			mustHaveLargerToken(t, second, first)
			if left := time.Until(second.Deadline()); left > -time.Hour+ttl {
				t.Errorf("its clock isn't behind any more: the lease ends in %v", left)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) { meshtest.Run(t, 3, row.test) })
	}
}

func TestPauses(t *testing.T) {
	for _, row := range []struct {
		name string
		test func(t *testing.T, m *meshtest.Mesh)
	}{
		{"the first look at a lease after a long one finds it lost", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			m.Pause("a")
			second := lock(t, m.Node("b"))
			select {
			case <-first.Done():
				t.Error("something of a has run")
			default:
			}
			m.Resume("a")
			wantIs(t, first.Err(), lockmesh.ErrLost) // before anything else of a can run
			mustHaveLargerToken(t, second, first)
			mustBeHeld(t, second)
		}},
		{"a look during one waits for its end", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			m.Pause("a")
			looks := make(chan error, 2)
			go func() { looks <- first.Err() }()
			go func() { looks <- first.Context().Err() }()
			time.Sleep(time.Minute)
			if len(looks) != 0 {
				t.Errorf("a stopped process has looked: %v", <-looks)
			}
			m.Resume("a")
			for range 2 {
				if err := <-looks; !errors.Is(err, lockmesh.ErrLost) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		}},
		{"a short one costs nothing", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			for _, name := range []string{"a", "b", "c"} {
				m.Pause(name)
				time.Sleep(ttl / 4)
				m.Resume(name)
				mustBeHeld(t, first)
				time.Sleep(time.Minute)
				mustBeHeld(t, first)
			}
		}},
		{"a paused node says nothing and its calls wait", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			time.Sleep(time.Second) // all voters know
			m.Pause("a")
			given := make(chan error, 1)
			go func() { given <- first.Unlock(t.Context()) }()
			time.Sleep(ttl / 4)
			wantIs(t, tryLock(t, m.Node("b")), lockmesh.ErrHeld)
			m.Resume("a")
			if err := <-given; err != nil {
				t.Error(err)
			}
			if err := tryLock(t, m.Node("b")); err != nil {
				t.Error(err)
			}
		}},
		{"two paused voters of three grant nothing, and go on as if nothing had been", func(t *testing.T, m *meshtest.Mesh) {
			m.Pause("b")
			m.Pause("c")
			wantIs(t, tryLock(t, m.Node("a")), lockmesh.ErrNoQuorum)
			m.Resume("b")
			m.Ready("a", "b")
			mustBeHeld(t, lock(t, m.Node("a")))
			m.Resume("c")
			m.Ready()
		}},
		{"a lease that is given back during one is free for others", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("b"))
			waiting := lockAsync(t, m.Node("a"), "k")
			synctest.Wait()
			m.Pause("a")
			if err := first.Unlock(t.Context()); err != nil { // a is next, and doesn't answer
				t.Error(err)
			}
			second := lock(t, m.Node("c"))
			m.Resume("a")
			synctest.Wait()
			if err := second.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			mustHaveLargerToken(t, (<-waiting).get(t), second)
		}},
		{"a crash of a paused node says nothing either", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			deadline := first.Deadline()
			m.Pause("a")
			given := make(chan error, 1)
			go func() { given <- first.Unlock(t.Context()) }()
			synctest.Wait()
			m.Crash("a")
			wantIs(t, <-given, lockmesh.ErrClosed)
			second := lock(t, m.Node("b"))
			if time.Until(deadline) > 0 {
				t.Errorf("it was given back %v before its deadline", time.Until(deadline))
			}
			mustHaveLargerToken(t, second, first)
		}},
		{"a restart of a paused node begins a life that isn't paused", func(t *testing.T, m *meshtest.Mesh) {
			first := lock(t, m.Node("a"))
			m.Pause("a")
			mustHaveLargerToken(t, lock(t, m.Restart("a")), first)
			m.Pause("a")
			m.Resume("a")
		}},
		{"a node that is paused at the end is closed", func(t *testing.T, m *meshtest.Mesh) {
			lock(t, m.Node("a"))
			m.Pause("a")
			m.Pause("b")
			go func() { _, _ = m.Node("a").Lock(t.Context(), "other") }()
		}},
	} {
		t.Run(row.name, func(t *testing.T) { meshtest.Run(t, 3, row.test) })
	}
}
