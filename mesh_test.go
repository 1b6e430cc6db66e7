package lockmesh

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

func TestReadyWaitsForTheQuietTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		began := time.Now()
		voters := []string{"a", "b", "c"}
		a := w.join("a", voters, nil)
		w.join("b", voters, nil)
		err := a.Ready(testwait.Within(t, 5*time.Second))
		wantIs(t, err, context.DeadlineExceeded, ErrNoQuorum)
		if !strings.Contains(err.Error(), "0 of 3 voters count: a quiet for 5.0s, b quiet for 5.0s, c unreachable") {
			t.Errorf("%q has no numbers", err)
		}
		if n := a.eng.Open().Waits; n != 0 {
			t.Errorf("%d calls of Ready that have ended are still waited for", n)
		}
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < DefaultMaxTTL || took > DefaultMaxTTL+2*time.Second {
			t.Errorf("ready after %v", took)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Ready(ended); err != nil {
			t.Errorf("it is ready, whatever the context: %v", err)
		}
	})
}

func TestLeaveServesWaitersElsewhereAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		var leases []*Lease
		served := make(chan time.Time, 10)
		for _, key := range []string{"j", "k", "l"} {
			leases = append(leases, must[*Lease](t)(a.Lock(t.Context(), key)))
			go func() {
				must[*Lease](t)(b.Lock(t.Context(), key))
				served <- time.Now()
			}()
		}
		other := must[*Lease](t)(b.Lock(t.Context(), "held by b"))
		waits := make(chan error, 1)
		go func() {
			_, err := a.Lock(t.Context(), "held by b")
			waits <- err
		}()
		synctest.Wait()
		left := time.Now()
		if err := a.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		for range leases {
			if took := (<-served).Sub(left); took > 100*time.Millisecond {
				t.Errorf("a waiter was served after %v", took)
			}
		}
		for _, l := range leases {
			wantIs(t, l.Err(), ErrReleased)
		}
		wantIs(t, <-waits, ErrClosed)
		if err := other.Err(); err != nil {
			t.Error(err)
		}
		if _, err := a.Lock(t.Context(), "k"); !errors.Is(err, ErrClosed) {
			t.Errorf("Lock after Leave: %v", err)
		}
	})
}

func TestLeaveWithoutAMajorityEndsAndSaysSo(t *testing.T) {
	for _, row := range []struct {
		name  string
		bound time.Duration
		is    error
		says  string
	}{
		{"when its context ends", time.Second, context.DeadlineExceeded, "not all leases are confirmed to be released"},
		{"after one TTL", time.Hour, ErrNoQuorum, "one release is unconfirmed: 1 of 3"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, _, _ := w.three()
				must[*Lease](t)(a.Lock(t.Context(), "k"))
				w.stall("a", true)
				began := time.Now()
				waited := make(chan time.Duration, 1)
				go func() {
					_, err := a.Lock(t.Context(), "k")
					wantIs(t, err, ErrClosed)
					waited <- time.Since(began)
				}()
				synctest.Wait()
				err := a.Leave(testwait.Within(t, row.bound))
				wantIs(t, err, row.is)
				if !strings.Contains(err.Error(), row.says) {
					t.Errorf("%v: it doesn't say %q", err, row.says)
				}
				if d := <-waited; d > time.Millisecond {
					t.Errorf("a call under way ended after %v", d)
				}
				if took := time.Since(began); took > min(row.bound, DefaultMaxTTL)+time.Second {
					t.Errorf("it took %v", took)
				}
				if !a.Status().Closed {
					t.Error("it isn't closed")
				}
			})
		})
	}
}

func TestCloseAndLeaveAreSafeTwiceAndTogether(t *testing.T) {
	for _, row := range []struct {
		name string
		end  []func(*Mesh, context.Context) error
	}{
		{"Close, Close", []func(*Mesh, context.Context) error{closeMesh, closeMesh}},
		{"Leave, Leave", []func(*Mesh, context.Context) error{(*Mesh).Leave, (*Mesh).Leave}},
		{"Leave, Close", []func(*Mesh, context.Context) error{(*Mesh).Leave, closeMesh}},
		{"all of them", []func(*Mesh, context.Context) error{closeMesh, (*Mesh).Leave, closeMesh, (*Mesh).Leave}},
	} {
		for _, together := range []bool{false, true} {
			name := row.name
			if together {
				name += " together"
			}
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *wire) {
					a, _, _ := w.three()
					must[*Lease](t)(a.Lock(t.Context(), "k"))
					var work sync.WaitGroup
					for _, end := range row.end {
						one := func() {
							if err := end(a, t.Context()); err != nil {
								t.Error(err)
							}
						}
						if together {
							work.Go(one)
						} else {
							one()
						}
					}
					work.Wait()
				})
			})
		}
	}
}

func closeMesh(m *Mesh, _ context.Context) error { return m.Close() }

func TestAfterCloseEverythingSaysClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		must[*Lease](t)(b.Lock(t.Context(), "k"))
		var work sync.WaitGroup
		for _, wait := range []func() error{
			func() error { _, err := a.Lock(t.Context(), "k"); return err },
			func() error { return a.Do(t.Context(), "k", func(context.Context, *Lease) error { return nil }) },
		} {
			work.Go(func() { wantIs(t, wait(), ErrClosed) })
		}
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		work.Wait()
		_, lock := a.Lock(t.Context(), "k")
		_, try := a.TryLock(t.Context(), "k")
		do := a.Do(t.Context(), "k", func(context.Context, *Lease) error { t.Error("called"); return nil })
		for _, err := range []error{lock, try, a.Ready(t.Context()), do} {
			wantIs(t, err, ErrClosed)
		}
		if s := a.Status(); !s.Closed || s.Name != "a" || len(s.Held) != 0 {
			t.Errorf("%v", s)
		}
		if a.Addr() != wireAddr("a") || a.Name() != "a" {
			t.Error("the name or the address is gone")
		}
	})
}

func TestStatusShowsWhatThereIs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		must[*Lease](t)(a.Lock(t.Context(), "k2"))
		must[*Lease](t)(a.Lock(t.Context(), "k1"))
		must[*Lease](t)(b.Lock(t.Context(), "theirs"))
		go func() { _, _ = a.Lock(t.Context(), "theirs") }()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s := a.Status()
		e := s.Electorate
		if len(s.Held) != 2 || s.Held[0].Key != "k1" || s.Held[1].Key != "k2" || time.Until(s.Held[0].Deadline) <= 0 || s.Held[0].Token == 0 {
			t.Errorf("held: %v", s.Held)
		}
		if len(s.Waiting) != 1 || s.Waiting[0].Key != "theirs" || !strings.Contains(s.Waiting[0].Text, "the lock is held or rests after a lease, or an earlier request is queued; 2 of 3 voters count") ||
			time.Since(s.Waiting[0].Since) < time.Second {
			t.Errorf("waiting: %v", s.Waiting)
		}
		if e.Majority != 2 || e.Counting != 2 || !e.Ready || len(e.Voters) != 3 || e.Voters[2].State != VoterUnreachable || e.Voters[1].State != VoterReachable {
			t.Errorf("electorate: %v", e)
		}
		if len(s.Members) < 2 || s.Members[0].Name != "a" || s.Members[0].Incarnation != s.Incarnation || s.Members[0].State != "alive" || s.Incarnation == 0 {
			t.Errorf("members: %v", s.Members)
		}
		w.join("c", []string{"a", "b", "c"}, nil)
		time.Sleep(2 * time.Second)
		quiet := a.Status().Electorate.Voters[2]
		if quiet.State != VoterQuiet || quiet.Quiet < 7*time.Second || quiet.Quiet > 9*time.Second || quiet.Text != "c quiet for 8.0s" {
			t.Errorf("a voter that has started again: %+v", quiet)
		}
		for _, text := range []string{"node a", "2 of 3 count, 2 needed, ready", "c quiet for", `"k1", token`, `"theirs", since`} {
			if !strings.Contains(a.Status().String(), text) {
				t.Errorf("%q isn't in\n%v", text, a.Status())
			}
		}
	})
}

func TestANodeThatNoMajorityAcceptsIsRefused(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*Config)
		says string
	}{
		{"another MaxTTL", func(c *Config) { c.MaxTTL = 20 * time.Second }, "MaxTTL is 20s here and 10s there"},
		{"another secret", func(c *Config) { c.Secret = []byte("of another test, 16") }, "every peer that answered refuses this node"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				w.SilenceGossip() // refused in gossip as well
				voters := []string{"a", "b", "c"}
				w.join("a", voters, nil)
				w.join("b", voters, nil)
				odd := w.join("d", voters, row.edit)
				time.Sleep(time.Second)
				began := time.Now()
				_, lock := odd.Lock(t.Context(), "k")
				_, try := odd.TryLock(t.Context(), "k")
				for _, err := range []error{lock, try, odd.Ready(t.Context())} {
					wantIs(t, err, ErrRefused)
					if err != nil && !strings.Contains(err.Error(), row.says) {
						t.Errorf("%q doesn't say %q", err, row.says)
					}
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A refusal ends with its cause. While one voter refuses the node and another accepts, the node
// isn't refused but short of voters.
func TestARefusalEndsWhenItsCauseDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		w.SilenceGossip()
		voters := []string{"a", "b", "c"}
		other := func(c *Config) { c.MaxTTL = 20 * time.Second }
		a, b := w.join("a", voters, other), w.join("b", voters, other)
		odd := w.join("d", voters, nil)
		time.Sleep(time.Second)
		wantIs(t, odd.Ready(t.Context()), ErrRefused)
		for _, m := range []*Mesh{a, b} { // with the node's configuration
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			w.join(m.Name(), voters, nil)
		}
		time.Sleep(10 * time.Second)
		// Without gossip a restarted voter learns late of the other voter's restart, and is quiet
		// for a further MaxTTL.
		if err := odd.Ready(testwait.Within(t, time.Minute)); err != nil {
			t.Error(err)
		}
	})
}

// The only voter would grant every key to both processes, so only gossip or a probe can detect the
// duplicate name.
func TestTheLaterOfTwoProcessesWithOneNameGivesWay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		first := w.join("a", []string{"a"}, nil)
		if err := first.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		later := w.join("a", []string{"a"}, func(c *Config) { c.Bind = "10.0.0.9:7950" })
		time.Sleep(20 * time.Second)
		for _, err := range []error{lockOnce(t.Context(), later), later.Ready(t.Context())} {
			wantIs(t, err, ErrRefused)
			if err != nil && !strings.Contains(err.Error(), `called "a" too`) {
				t.Errorf("%q doesn't say why", err)
			}
		}
		if err := lockOnce(t.Context(), first); err != nil {
			t.Errorf("the first is disturbed: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := lockOnce(t.Context(), later); err == nil {
			t.Error("the later counts while leases may stand that the first has granted")
		}
		time.Sleep(DefaultMaxTTL)
		if err := lockOnce(t.Context(), later); err != nil {
			t.Errorf("the first has gone, but the later is refused: %v", err)
		}
	})
}

func lockOnce(ctx context.Context, m *Mesh) error {
	lease, err := m.TryLock(ctx, "k")
	if err == nil {
		err = lease.Unlock(ctx)
	}
	return err
}

// stuck is a log handler with a method Handle that blocks until free is closed.
type stuck struct {
	slog.Handler
	free chan struct{}
}

func (s stuck) Enabled(context.Context, slog.Level) bool { return true }

func (s stuck) Handle(context.Context, slog.Record) error { <-s.free; return nil }

func TestAnApplicationThatBlocksDoesNotStopTheRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		log := stuck{slog.DiscardHandler, make(chan struct{})}
		voters := []string{"a", "b", "c"}
		a := w.join("a", voters, func(c *Config) { c.Logger = slog.New(log) })
		b := w.join("b", voters, nil)
		w.join("c", voters, nil)
		lease := must[*Lease](t)(a.Lock(t.Context(), "k"))
		other := must[*Lease](t)(a.Lock(t.Context(), "other"))
		context.AfterFunc(other.Context(), func() { <-log.free })
		if err := other.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil { // gives a something to log
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := lease.Err(); err != nil {
			t.Errorf("the lease is gone: %v", err)
		}
		close(log.free)
	})
}

func TestAMeshRunsByAMockClock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		mock := clock.NewMock()
		m := w.join("a", []string{"a"}, func(c *Config) { c.Clock = mock })
		if err := m.Ready(testwait.Within(t, time.Hour)); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("ready though its clock stands still: %v", err)
		}
		for range 130 {
			mock.Add(100 * time.Millisecond)
		}
		if err := m.Ready(testwait.Within(t, time.Second)); err != nil {
			t.Fatal(err)
		}
		lease := must[*Lease](t)(m.Lock(t.Context(), "k"))
		if left := lease.Deadline().Sub(mock.Now()); left <= 0 || left > DefaultMaxTTL {
			t.Errorf("the deadline is %v ahead", left)
		}
		for range 50 {
			mock.Add(time.Second)
		}
		if err := lease.Err(); err != nil {
			t.Errorf("a lease that is renewed by the mock's time was lost: %v", err)
		}
	})
}

func TestJoinFailsOnAnAddressThatIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		w.join("a", []string{"a"}, nil)
		_, err := join(t.Context(), Config{Name: "b", Bind: wireAddr("a"), Voters: []string{"a"}, Insecure: true}, w.Start().World())
		wantIs(t, err, ErrConfig)
		if err == nil || !strings.Contains(err.Error(), wireAddr("a")) {
			t.Errorf("%v doesn't name the address", err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = join(cancelled, Config{Name: "b", Bind: wireAddr("b"), Voters: []string{"a"}, Insecure: true}, w.Start().World())
		wantIs(t, err, context.Canceled)
	})
}

// The lease moves from one majority to another. If the shell didn't follow, the lease would end
// with the first majority.
func TestALeaseOutlivesARollingRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		lease := must[*Lease](t)(a.Lock(t.Context(), "k"))
		for range 3 {
			for _, m := range []**Mesh{&b, &c} {
				if err := (*m).Close(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				*m = w.join((*m).Name(), []string{"a", "b", "c"}, nil)
				if err := (*m).Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second)
			}
		}
		if err := lease.Err(); err != nil {
			t.Errorf("%v\n%v", err, a.Status())
		}
		if left := time.Until(lease.Deadline()); left <= 0 {
			t.Errorf("its deadline passed %v ago", -left)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
