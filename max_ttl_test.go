package lockmesh

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// restart kills a node, and starts the node again with a maximum TTL.
func (w *living) restart(name string, maxTTL time.Duration) *Mesh {
	w.t.Helper()
	w.crash(name)
	m := w.start(name, func(c *Config) { c.MaxTTL = maxTTL })
	// Else the next restart would leave two voters out.
	if err := m.Settled(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// The maximum TTL of a mesh with dynamic membership changes while leases are held, once a majority
// of the voters is configured with another value. Until then the old value counts, on a node with
// the new value too, and no lease outlives its node by more than the value that counts.
func TestMaxTTLIsRaisedAndLoweredWhileALeaseIsHeld(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	const short, long = DefaultMaxTTL / 5, DefaultMaxTTL
	for _, c := range []struct {
		name     string
		from, to time.Duration
	}{{"raised", short, long}, {"lowered", long, short}} {
		t.Run(c.name, func(t *testing.T) {
			inLivingBubble(t, func(t *testing.T, w *living) {
				for _, name := range w.founders {
					w.start(name, func(c2 *Config) { found(c2); c2.MaxTTL = c.from })
				}
				client := w.start("d", func(c2 *Config) { c2.MaxTTL = c.to })
				w.ready("d")
				decided := func(d time.Duration) {
					t.Helper()
					w.until("d", "a MaxTTL of "+d.String(), func(s ElectorateStatus) bool { return s.MaxTTL == d && !s.Joint })
				}
				decided(c.from)
				if ttl := client.Status().TTL; ttl != min(c.from, c.to) {
					t.Errorf("a lease of d is said to have a length of %v", ttl)
				}
				held := w.lock("d", "held")
				w.restart("a", c.to)
				decided(c.from)
				if n := w.logs.count("MaxTTL is "+c.to.String()+" on this node, and "+c.from.String()+" by decision of the voters", "on=a"); n != 1 {
					t.Errorf("a has warned %d times that its MaxTTL differs", n)
				}
				outlives(w, "a", min(c.from, c.to))
				w.restart("a", c.to)
				w.restart("b", c.to)
				decided(c.to)
				w.restart("c", c.to)
				time.Sleep(2 * max(c.from, c.to))
				if err := held.Err(); err != nil {
					t.Fatalf("the lease that was held all the time: %v", err)
				}
				w.unlock(held)
				outlives(w, "a", c.to)
				if s := client.Status(); s.Electorate.MaxTTL != c.to || s.Electorate.Version != 3 || s.TTL != c.to {
					t.Errorf("%v %+v", s.TTL, s.Electorate)
				}
			})
		})
	}
}

// outlives checks the time by which a lease of a node outlives the node: about a TTL, since the
// session's last refresh is at most a fifth of a TTL old.
func outlives(w *living, name string, ttl time.Duration) {
	w.t.Helper()
	w.lock(name, "of "+name)
	time.Sleep(2 * ttl) // the session is refreshed
	w.crash(name)
	died := time.Now()
	w.unlock(w.lock("d", "of "+name))
	if took := time.Since(died); took < ttl*7/10 || took > ttl*13/10 {
		w.t.Errorf("a lease of %s outlived its node by %v; its TTL is %v", name, took, ttl)
	}
}

// Options are checked against the decided maximum TTL: a longer lease without renewal is kept up by
// its node, and a lock-delay beyond the decided value is refused.
func TestOptionsGoByTheDecidedMaxTTL(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		m := w.start("d", func(c *Config) { c.MaxTTL = 3 * DefaultMaxTTL })
		w.ready("d")
		l, err := m.Lock(t.Context(), "k", WithTTL(2*DefaultMaxTTL), WithoutRenewal())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-l.Done()
		if lasted := time.Since(began); lasted < 19*DefaultMaxTTL/10 || lasted > 2*DefaultMaxTTL {
			t.Errorf("a lease of %v without renewal lasted for %v: %v", 2*DefaultMaxTTL, lasted, l.Err())
		}
		_, err = m.Lock(t.Context(), "k", WithTTL(DefaultMaxTTL/2), WithDelay(2*DefaultMaxTTL))
		if !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "MaxTTL, 10s by decision of the voters, and 30s on this node") {
			t.Errorf("a delay that the voters can't promise: %v", err)
		}
		if l, err := m.Lock(t.Context(), "k", WithTTL(2*DefaultMaxTTL)); err != nil {
			t.Errorf("a TTL of more than the voters grant: %v", err)
		} else {
			time.Sleep(4 * DefaultMaxTTL)
			if err := l.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// MaxTTL is lowered in a mesh with dynamic membership. While the voters still wait for the longer
// leases, the mesh is restarted with a fixed list and the lower value. The new voters wait for the
// longer leases too: a node that is cut off holds one.
func TestAFixedListWaitsForLeasesFromBeforeMaxTTLWasLowered(t *testing.T) {
	const long, short = 4 * DefaultMaxTTL, DefaultMaxTTL / 2
	inLivingBubble(t, func(t *testing.T, w *living) {
		for _, name := range w.founders {
			w.start(name, func(c *Config) { found(c); c.MaxTTL = long })
		}
		w.start("d", func(c *Config) { c.MaxTTL = long })
		w.ready("d")
		w.restart("a", short)
		held := w.lock("d", "k")
		w.crash("b")
		w.stall("d", true)
		cut := time.Now()
		w.start("b", func(c *Config) { c.MaxTTL = short })
		w.until("a", "a change of MaxTTL", func(s ElectorateStatus) bool { return s.MaxTTL == short && s.Joint })
		w.crash("c")
		w.start("c", func(c *Config) { c.MaxTTL = short })
		time.Sleep(time.Second)
		for _, name := range w.founders {
			w.crash(name)
			w.start(name, func(c *Config) { asFixed(c); c.MaxTTL = short })
			time.Sleep(time.Second)
		}
		l, err := w.nodes["a"].Lock(testwait.Within(t, time.Hour), "k")
		if err != nil {
			t.Fatal(err)
		}
		if held.Err() == nil {
			t.Errorf("a has the lock of d %v after d was cut off", time.Since(cut))
		}
		w.unlock(l)
	})
}

// A mesh with a fixed list refuses a node with another MaxTTL.
func TestAFixedMeshRefusesAnotherMaxTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		w.three()
		m := w.join("d", []string{"a", "b", "c"}, func(c *Config) { c.MaxTTL = 2 * DefaultMaxTTL })
		time.Sleep(2 * DefaultMaxTTL)
		if _, err := m.TryLock(t.Context(), "k"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "MaxTTL is 20s") {
			t.Errorf("%v", err)
		}
	})
}

// While all voters of a fixed mesh are quiet after a start, a node with a much longer MaxTTL comes
// by. The voters wait for the leases that the node may hold, for that MaxTTL, and say so.
func TestAWaitForTheLeasesOfARefusedNodeIsTold(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		logs, voters := &logged{}, []string{"a", "b", "c"}
		for _, name := range voters {
			w.join(name, voters, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(logs, nil)).With("on", name) })
		}
		x := w.join("x", voters, func(c *Config) { c.MaxTTL = 30 * time.Minute })
		time.Sleep(time.Second)
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Minute)
		a := w.meshes[0]
		if _, err := a.TryLock(t.Context(), "k"); err == nil {
			t.Fatal("the voters count, and x may hold the lock")
		}
		if s := a.Stats(); s.Quiet < 24*time.Minute || s.Quiet > 26*time.Minute {
			t.Errorf("quiet for %v", s.Quiet)
		}
		s := a.Status()
		if len(s.Refused) != 1 || s.Refused[0].Name != "x" || !strings.Contains(s.Refused[0].Reason, "MaxTTL is 10s here and 30m0s at x") {
			t.Errorf("refused: %+v", s.Refused)
		}
		if v := s.Electorate.Voters[0]; v.Name != "a" || v.Quiet < 24*time.Minute {
			t.Errorf("%+v", v)
		}
		for _, name := range voters {
			lines := logs.all("level=WARN", "this voter waits for leases of a refused node: MaxTTL is 30m0s on x ("+wireAddr("x")+") and 10s on "+name, "on="+name)
			if len(lines) != 1 {
				t.Errorf("%s has told %d times: %v", name, len(lines), lines)
			}
		}
		time.Sleep(26 * time.Minute)
		if err := a.Ready(t.Context()); err != nil || len(a.Status().Refused) != 0 {
			t.Errorf("%v; refused: %+v", err, a.Status().Refused)
		}
	})
}
