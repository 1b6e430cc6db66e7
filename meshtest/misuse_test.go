package meshtest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// fakeTB is a test that may fail without consequences.
type fakeTB struct {
	testing.TB
	mu       sync.Mutex
	messages []string
	fatal    bool
	cleanups []func()
}

func (v *fakeTB) Helper() {}

func (v *fakeTB) Cleanup(f func()) { v.cleanups = append(v.cleanups, f) }

func (v *fakeTB) Errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.messages = append(v.messages, fmt.Sprintf(format, args...))
}

func (v *fakeTB) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	v.fatal = true
	runtime.Goexit()
}

func (v *fakeTB) Fatal(args ...any) { v.Fatalf("%s", fmt.Sprint(args...)) }

// runFailing runs a test that should fail, in a bubble, and returns the messages of the failure.
func runFailing(t *testing.T, f func(v *fakeTB)) (said string, fatal bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := &fakeTB{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			f(v)
		}()
		<-done
		for _, clean := range v.cleanups {
			clean()
		}
		said, fatal = strings.Join(v.messages, "\n"), v.fatal
	})
	return said, fatal
}

func TestMisuseEndsTheTestAndSaysWhatToDo(t *testing.T) {
	configure := func(edit func(*lockmesh.Config)) func(v *fakeTB) {
		return func(v *fakeTB) { meshtest.New(v, 3, meshtest.WithConfig(edit)) }
	}
	onThree := func(f func(m *meshtest.Mesh)) func(v *fakeTB) {
		return func(v *fakeTB) { f(meshtest.New(v, 3)) }
	}
	for _, row := range []struct {
		name string
		do   func(v *fakeTB)
		says string
	}{
		{"no nodes", func(v *fakeTB) { meshtest.New(v, 0) }, "a mesh of 0 nodes; ask for 1 to 1000"},
		{"too many nodes", func(v *fakeTB) { meshtest.New(v, 1001) }, "a mesh of 1001 nodes"},
		{"too many voters", func(v *fakeTB) { meshtest.New(v, 64) }, "at most 63 can vote"},
		{"names missing", func(v *fakeTB) { meshtest.New(v, 3, meshtest.WithNames("x", "y")) }, "Names has 2 names for 3 nodes"},
		{"one name twice", func(v *fakeTB) { meshtest.New(v, 2, meshtest.WithNames("x", "x")) }, `two nodes are called "x"`},
		{"a bad name", func(v *fakeTB) { meshtest.New(v, 1, meshtest.WithNames("x y")) }, `"x y" has spaces`},
		{"no voters", func(v *fakeTB) { meshtest.New(v, 3, meshtest.WithVoters(0)) }, "Voters(0) of 3 nodes; 1 to 3 can vote"},
		{"more voters than nodes", func(v *fakeTB) { meshtest.New(v, 3, meshtest.WithVoters(4)) }, "Voters(4) of 3 nodes"},
		{"a MaxTTL that is too short", func(v *fakeTB) { meshtest.New(v, 3, meshtest.WithMaxTTL(time.Millisecond)) }, "starting a: lockmesh: the configuration is wrong: MaxTTL: 1ms is less than 200ms"},
		{"a negative latency", func(v *fakeTB) { meshtest.New(v, 3, meshtest.WithLatency(-1)) }, "WithLatency(-1ns) is negative"},
		{"no function to configure with", configure(nil), "WithConfig was given no function"},
		{"another address", configure(func(c *lockmesh.Config) { c.Bind = "127.0.0.1:0" }), "WithConfig has changed Name, Bind"},
		{"another clock", configure(func(c *lockmesh.Config) { c.Clock = nil }), "Clock of a; use WithNames"},
		{"other voters", configure(func(c *lockmesh.Config) { c.Voters[0] = "x" }), "Voters, StateDir"},
		{"a state directory of one node's", configure(func(c *lockmesh.Config) { c.StateDir = "/x" }), "DynamicMembership"},
		{"a lost directory where there is none", onThree(func(m *meshtest.Mesh) { m.Crash("a"); m.Wipe("a") }), `Wipe("a"): the electorate is fixed`},
		{"a lost directory of an unknown node", onThree(func(m *meshtest.Mesh) { m.Wipe("d") }), `no node "d"`},
		{"an unknown node", onThree(func(m *meshtest.Mesh) { m.Node("d") }), `there is no node "d"; there are a, b, c`},
		{"an unknown node crashes", onThree(func(m *meshtest.Mesh) { m.Crash("d") }), `no node "d"`},
		{"an unknown node restarts", onThree(func(m *meshtest.Mesh) { m.Restart("d") }), `no node "d"`},
		{"an unknown node is paused", onThree(func(m *meshtest.Mesh) { m.Pause("d") }), `no node "d"`},
		{"an unknown node resumes", onThree(func(m *meshtest.Mesh) { m.Resume("d") }), `no node "d"`},
		{"an unknown node's clock", onThree(func(m *meshtest.Mesh) { m.SetClock("d", 0) }), `no node "d"`},
		{"an unknown node is waited for", onThree(func(m *meshtest.Mesh) { m.Ready("d") }), `no node "d"`},
		{"an unknown node is cut off", onThree(func(m *meshtest.Mesh) { m.Cut("a", "d") }), `no node "d"`},
		{"an unknown node is in a partition", onThree(func(m *meshtest.Mesh) { m.Partition([]string{"d"}) }), `no node "d"`},
		{"a node cut off from itself", onThree(func(m *meshtest.Mesh) { m.Cut("a", "a") }), `Cut("a", "a"): a node always hears itself`},
		{"a partition of nothing", onThree(func(m *meshtest.Mesh) { m.Partition() }), "Partition without groups"},
		{"a node on both sides", onThree(func(m *meshtest.Mesh) { m.Partition([]string{"a", "b"}, []string{"c", "a"}) }), `puts "a" into two groups`},
		{"two crashes", onThree(func(m *meshtest.Mesh) { m.Crash("a"); m.Crash("a") }), `Crash("a"): it has crashed before`},
		{"a pause of a crashed node", onThree(func(m *meshtest.Mesh) { m.Crash("a"); m.Pause("a") }), `Pause("a"): it has crashed; only`},
		{"two pauses", onThree(func(m *meshtest.Mesh) { m.Pause("a"); m.Pause("a") }), `Pause("a"): it is paused; only`},
		{"no pause", onThree(func(m *meshtest.Mesh) { m.Resume("a") }), `Resume("a"): it runs; only`},
		{"a pause that a crash has ended", onThree(func(m *meshtest.Mesh) { m.Pause("a"); m.Crash("a"); m.Resume("a") }), `Resume("a"): it has crashed`},
		{"waiting for a crashed node", onThree(func(m *meshtest.Mesh) { m.Crash("a"); m.Ready("b", "a") }), `Ready("a"): it has crashed`},
		{"waiting for a paused node", onThree(func(m *meshtest.Mesh) { m.Pause("a"); m.Ready("a") }), `Ready("a"): it is paused`},
		{
			"waiting without a majority",
			onThree(func(m *meshtest.Mesh) { m.Crash("a"); m.Crash("b"); m.Ready() }),
			"c isn't ready: lockmesh: ready: too few voters answer or count: 0 of 3 voters count: a unreachable (connection refused), b",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			said, fatal := runFailing(t, row.do)
			if !fatal || !strings.HasPrefix(said, "meshtest: ") || !strings.Contains(said, row.says) {
				t.Errorf("it said %q, and ended the test: %v; want %q", said, fatal, row.says)
			}
		})
	}
}

// Without a bound such a test would run indefinitely, since simulated time always finds a next
// event.
func TestATestThatWaitsForWhatCannotComeFails(t *testing.T) {
	for _, row := range []struct {
		name string
		wait func(m *lockmesh.Mesh, l *lockmesh.Lease)
	}{
		{"Err of a lease of a paused node", func(_ *lockmesh.Mesh, l *lockmesh.Lease) { _ = l.Err() }},
		{"Status of a paused node", func(m *lockmesh.Mesh, _ *lockmesh.Lease) { _ = m.Status() }},
		{"Close of a paused node", func(m *lockmesh.Mesh, _ *lockmesh.Lease) { _ = m.Close() }},
		{"Lock of a paused node", func(m *lockmesh.Mesh, _ *lockmesh.Lease) { _, _ = m.Lock(context.Background(), "other") }},
		{"Done of a paused node's lease", func(_ *lockmesh.Mesh, l *lockmesh.Lease) { <-l.Done() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			said, fatal := runFailing(t, func(v *fakeTB) {
				m := meshtest.New(v, 1)
				m.Ready()
				lease, err := m.Node("a").Lock(v.Context(), "k")
				if err != nil {
					v.Fatal(err)
				}
				m.Pause("a")
				row.wait(m.Node("a"), lease)
				wantIs(t, lease.Err(), lockmesh.ErrLost)
			})
			if fatal || !strings.Contains(said, "the test is given up, since 277h46m40s have passed in its mesh") {
				t.Errorf("it said %q", said)
			}
		})
	}
}
