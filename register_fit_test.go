package lockmesh

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/register"
)

// A storage that takes a condition and ignores it bears no mesh: of two groups of
// processes, each would find itself in the record.
func TestAStorageThatIgnoresConditionsBearsNoMesh(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		r := new(unconditional)
		w.Cut(func(from, to string) bool { return (from <= "c") != (to <= "c") })
		for _, group := range [][]string{{"a", "b", "c"}, {"d", "e", "f"}} {
			for _, name := range group {
				w.start(name, expect(3, registered(r), peersAt(group...)))
			}
		}
		for range 20 {
			time.Sleep(15 * time.Second)
			for _, name := range []string{"a", "d"} {
				if l, err := w.nodes[name].Lock(testwait.Within(t, time.Second), "k"); err == nil {
					t.Fatalf("%s has %v", name, l)
				}
			}
		}
		if w.logs.count("level=WARN", "ignores the conditions of writes") == 0 {
			t.Errorf("no process says why: %v", w.logs.all("level=WARN"))
		}
	})
}

// unconditional is a register that ignores the version.
type unconditional struct{ register.Memory }

func (r *unconditional) Store(ctx context.Context, record []byte, _ string) error {
	_, version, err := r.Load(ctx)
	if err != nil {
		return err
	}
	return r.Memory.Store(ctx, record, version)
}

func peersAt(names ...string) func(*Config) {
	return func(c *Config) {
		c.Peers = nil
		for _, name := range names {
			c.Peers = append(c.Peers, wireAddr(name))
		}
	}
}

// A voter that can't write loses its seat, also where each write is refused since the record has
// changed: this voter's loads are answered by a replica that has stopped.
func TestAVoterWithAStoppedReplicaLosesItsSeat(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		m := new(register.Memory)
		r := &stopping{Memory: m}
		w.start("a", expect(3, registered(m)))
		w.start("b", expect(3, registered(m)))
		w.start("c", expect(3, registered(r)))
		w.untilVoters("a", "a", "b", "c")
		w.start("d", expect(3, registered(m)))
		w.ready("d")
		r.stop(t)
		time.Sleep(2 * overATerm)
		w.untilVoters("a", "a", "b", "d")
		if w.logs.count("on=c", "level=WARN", "each read shows the same record") == 0 {
			t.Errorf("c doesn't say why: %v", w.logs.all("on=c"))
		}
	})
}

// If no voter can write, each says why.
func TestWritesThatAreAlwaysRefusedAreTrouble(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		r := &stopping{Memory: new(register.Memory)}
		w.bornRegistered(r)
		r.stop(t)
		time.Sleep(overATerm)
		err := w.nodes["a"].Ready(testwait.Within(t, time.Second))
		if err == nil || !strings.Contains(err.Error(), "each read shows the same record") {
			t.Errorf("Ready says %v", err)
		}
		if n := r.stores.Load(); n > 400 {
			t.Errorf("%d stores in a term", n)
		}
	})
}

// stopping is a register whose reads are answered by a replica, which stops.
type stopping struct {
	*register.Memory
	stopped atomic.Bool
	stores  atomic.Int64 // since the replica has stopped
	record  []byte
	version string
}

func (r *stopping) stop(t *testing.T) {
	var err error
	if r.record, r.version, err = r.Memory.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.stopped.Store(true)
}

func (r *stopping) Load(ctx context.Context) ([]byte, string, error) {
	if r.stopped.Load() {
		return r.record, r.version, nil
	}
	return r.Memory.Load(ctx)
}

func (r *stopping) Store(ctx context.Context, record []byte, version string) error {
	if r.stopped.Load() {
		r.stores.Add(1)
	}
	return r.Memory.Store(ctx, record, version)
}

// A rollout that changes the register stops: a process whose register has no record of the mesh
// doesn't settle, and has no vote. Otherwise the first register would stand unchanged, and
// processes that still use it could found another mesh beside the first.
func TestARolloutToAnotherRegisterStops(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		first, second := new(register.Memory), new(register.Memory)
		w.bornRegistered(first)
		w.start("d", expect(3, registered(second)))
		err := w.nodes["d"].Settled(testwait.Within(t, time.Minute))
		if err == nil || !strings.Contains(err.Error(), "give all processes the same register") {
			t.Errorf("Settled says %v", err)
		}
		w.crash("a")
		time.Sleep(overATerm)
		w.untilVoters("b", "a", "b", "c")
		w.unlock(w.lock("d", "k")) // it takes locks, and has no vote
		if record := recordOf(t, second); record != "" {
			t.Errorf("the second register has %s", record)
		}
		// A record that the voters have seen was deleted, and is made anew.
		if err := first.Store(t.Context(), nil, versionOf(t, first)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(overATerm)
		if recordOf(t, first) == "" {
			t.Error("the deleted record isn't made anew")
		}
		w.unlock(w.lock("d", "k"))
	})
}

func versionOf(t *testing.T, r register.Register) string {
	t.Helper()
	_, version, err := r.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return version
}
