package lockmesh

import (
	"testing"
	"testing/synctest"
	"time"
)

// A key kept from others for longer than its lease was held keeps a lease group at the node, though
// the shell has no lease of the group any more. The next lease may join the group, at its grant or
// once all voters have been asked, and no new report of the group's validity follows.
func TestALeaseIsCoveredWhileAKeyIsKeptWithoutOne(t *testing.T) {
	for _, row := range []struct {
		name   string
		voters int
		before func(w *wire)
	}{
		{"at once", 1, func(*wire) {}},
		{"later", 1, func(*wire) { time.Sleep(time.Minute) }},
		{"at once, with three voters", 3, func(*wire) {}},
		{"later, with three voters", 3, func(*wire) { time.Sleep(time.Minute) }},
		{"when its votes have moved", 3, func(w *wire) {
			w.stall("c", true)
			time.Sleep(30 * time.Second)
			w.stall("c", false)
			time.Sleep(30 * time.Second)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				var a *Mesh
				if row.voters == 1 {
					a = w.alone()
				} else {
					a, _, _ = w.three()
				}
				unlock(t, must[*Lease](t)(a.Lock(t.Context(), "kept", WithMinHold(time.Hour))))
				row.before(w)
				lease := must[*Lease](t)(a.Lock(t.Context(), "k"))
				for range 100 {
					if err := lease.Err(); err != nil {
						t.Fatalf("the lease is over: %v", err)
					}
					time.Sleep(10 * time.Millisecond)
				}
				unlock(t, lease)
			})
		})
	}
}

// After the end of a minimum hold, and after the loss of a kept key, the shell has no record of the
// key.
func TestNothingIsLeftOfAKeyThatWasKept(t *testing.T) {
	for name, end := range map[string]func(w *wire){
		"when its time is over": func(*wire) { time.Sleep(time.Minute) },
		"when it is lost":       func(w *wire) { w.stall("a", true); time.Sleep(30 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, _, _ := w.three()
				unlock(t, must[*Lease](t)(a.Lock(t.Context(), "kept", WithMinHold(45*time.Second))))
				end(w)
				synctest.Wait()
				if open := a.eng.Open(); open.Leases+open.Validities != 0 {
					t.Errorf("%+v are left", open)
				}
			})
		})
	}
}

// A minimum hold goes on when the lease has ended by itself, whether the holder or the timer
// notices the end first.
func TestAKeyIsKeptWhenItsLeaseHasEndedByItself(t *testing.T) {
	for _, row := range []struct {
		name      string
		ttl, hold time.Duration
		asks      bool // the holder reads the clock before the timer fires
		want      time.Duration
	}{
		{"shorter than a voter can promise", 5 * time.Second, time.Minute, false, time.Minute},
		{"the node's own", DefaultMaxTTL, time.Minute, false, time.Minute},
		{"longer than a voter can promise", 30 * time.Second, time.Minute, false, time.Minute},
		{"as its holder sees first", 30 * time.Second, time.Minute, true, time.Minute},
		{"and not for longer than it is held", 30 * time.Second, 20 * time.Second, false, 30 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				granted := time.Now()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(row.ttl), WithoutRenewal(), WithMinHold(row.hold)))
				next := later(func() (*Lease, error) { return b.Lock(t.Context(), "k") })
				if row.asks {
					time.Sleep(row.ttl - 2*time.Second)
					w.clocks[a].Set(3 * time.Second)
					wantIs(t, l.Err(), ErrLost)
				}
				<-l.Done()
				if took := time.Since(granted); !row.asks && (took < row.ttl-row.ttl/32 || took > row.ttl) {
					t.Errorf("it ended after %v", took)
				}
				r := <-next
				if took := time.Since(granted); r.err != nil || took < row.want || took > row.want+time.Second {
					t.Errorf("the next one has it after %v: %v", took, r.err)
				}
				unlock(t, r.lease)
			})
		})
	}
}

// An upgrade doesn't begin the least time anew: the key is kept until the time is over that was
// requested with the reader, and no longer.
func TestAnUpgradeKeepsTheRestOfAMinimumHold(t *testing.T) {
	const hold = 5 * time.Second
	for name, row := range map[string]struct {
		upgrade, waits, free time.Duration // waits is for another reader; free is after the grant
	}{
		"before its end":              {4 * time.Second, 0, hold},
		"after its end":               {6 * time.Second, 0, 6 * time.Second},
		"after a wait beyond the end": {4 * time.Second, 2 * time.Second, hold + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.short()
				start := time.Now()
				l := must[*Lease](t)(a.RLock(t.Context(), "k", WithMinHold(hold)))
				other := must[*Lease](t)(b.RLock(t.Context(), "k"))
				time.Sleep(row.upgrade)
				time.AfterFunc(row.waits, func() {
					if err := other.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				})
				if err := l.Upgrade(t.Context()); err != nil {
					t.Fatal(err)
				}
				unlock(t, l)
				must[*Lease](t)(b.Lock(t.Context(), "k"))
				about(t, "the next had it after", time.Since(start), row.free)
				if took := time.Since(start); took < row.free {
					t.Errorf("the key was free after %v", took)
				}
			})
		})
	}
}
