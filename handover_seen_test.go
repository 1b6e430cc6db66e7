package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestWhatIsSeenOfHandOversWithinANode has the callers of one node hand off a lease, and another
// node inspect the key after each hand-off: Inspect shows the present holder's token, and no holder
// after the last Unlock.
func TestWhatIsSeenOfHandOversWithinANode(t *testing.T) {
	for name, opts := range map[string][]Option{"plain": nil, "with a value": {WithValue([]byte("v"))}} {
		t.Run(name, func(t *testing.T) {
			inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				const callers = 4
				version := uint64(min(len(opts), 1))
				lease := must[*Lease](t)(a.Lock(t.Context(), "k", opts...))
				first := lease.Token()
				granted := make(chan *Lease)
				for range callers {
					go func() {
						l, err := a.Lock(t.Context(), "k", opts...)
						if err != nil {
							t.Error(err)
						}
						granted <- l
					}()
				}
				time.Sleep(time.Second)
				for range callers {
					check(t, lease.Unlock(t.Context()))
					lease = <-granted
					info := must[Info](t)(b.Inspect(t.Context(), "k"))
					if len(info.Holders) != 1 || info.Holders[0].Node != "a" || info.Holders[0].Unsure {
						t.Fatalf("%+v", info)
					}
					if shown := info.Holders[0].Token; shown != lease.Token() || info.Holders[0].Version != version {
						t.Errorf("token %d with version %d is shown of the lease %d; the first was %d", shown, info.Holders[0].Version, lease.Token(), first)
					}
				}
				check(t, lease.Unlock(t.Context()))
				if info := must[Info](t)(b.Inspect(t.Context(), "k")); len(info.Holders) != 0 {
					t.Errorf("after the last Unlock: %+v", info)
				}
			})
		})
	}
}

// TestEachHandOverIsSeen has the callers of two nodes use one key in turns, most of them by
// hand-offs within a node, and a third node inspect the key during some of the leases: Inspect
// shows the lease's node and token.
func TestEachHandOverIsSeen(t *testing.T) {
	inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		const callers, locks = 4, 100
		var turn int // guarded by the lock of the key
		var callersDone sync.WaitGroup
		inspections, handedOver := 0, 0
		tokens := make(map[uint64]bool)
		for i := range callers {
			m := []*Mesh{a, a, a, b}[i]
			callersDone.Go(func() {
				for range locks {
					lease, err := m.Lock(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					token := lease.Token()
					if turn++; turn%5 == 0 {
						inspections++
						info, err := c.Inspect(t.Context(), "k")
						if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != lease.Token() || info.Holders[0].Node != m.Name() {
							t.Errorf("lease %d of %s is shown as %+v, %v", lease.Token(), m.Name(), info.Holders, err)
						}
					}
					if tokens[token-1] {
						handedOver++ // the lease goes on with the same token block
					}
					tokens[token] = true
					if err := lease.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callersDone.Wait()
		if inspections != callers*locks/5 || handedOver < locks/2 {
			t.Errorf("%d inspections, %d hand-overs", inspections, handedOver)
		}
	})
}

// TestAHandOverIsSeenAfterAChange has a lease handed off, and then changed by its present holder:
// Inspect shows the holder's token, and the lease's first value has version 1.
func TestAHandOverIsSeenAfterAChange(t *testing.T) {
	for _, row := range []struct {
		name    string
		change  func(t *testing.T, lease *Lease) error
		version uint64
	}{
		{"Downgrade", func(t *testing.T, lease *Lease) error { return lease.Downgrade(t.Context()) }, 0},
		{"SetValue", func(t *testing.T, lease *Lease) error { return lease.SetValue(t.Context(), []byte("v")) }, 1},
		{"SetValue twice", func(t *testing.T, lease *Lease) error {
			return errors.Join(lease.SetValue(t.Context(), []byte("u")), lease.SetValue(t.Context(), []byte("v")))
		}, 2},
	} {
		for _, seen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, inspected before: %t", row.name, seen), func(t *testing.T) {
				inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
					a, b, _ := w.three()
					lease := passedOn(t, a, "k")
					if seen && tokenOf(t, b, "k") != lease.Token() {
						t.Error("the token of another lease is shown")
					}
					check(t, row.change(t, lease))
					info := must[Info](t)(b.Inspect(t.Context(), "k"))
					if len(info.Holders) != 1 {
						t.Fatalf("%+v", info)
					}
					h := info.Holders[0]
					if h.Token != lease.Token() || h.Version != row.version || (string(h.Value) == "v") != (row.version > 0) {
						t.Errorf("the lease %d is shown as %+v", lease.Token(), h)
					}
				})
			})
		}
	}
}

// TestNoHandOverFollowsTheStateOfAWatch has two callers of a node take turns by hand-offs. A watch
// of the key begins, and reports each lease after the watch's first state with the lease's own
// token.
func TestNoHandOverFollowsTheStateOfAWatch(t *testing.T) {
	inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		var mu sync.Mutex
		synced := false
		want := make(map[uint64]bool)
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() {
				for range 50 {
					lease, err := a.Lock(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if synced {
						want[lease.Token()] = true
					}
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
					if err := lease.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		watch := must[*Watch](t)(b.Watch(ctx, "k"))
		told := make(map[uint64]bool)
		var reader sync.WaitGroup
		reader.Go(func() {
			for e := range watch.Events() {
				switch e.Kind {
				case EventSynced:
					mu.Lock()
					synced = true
					mu.Unlock()
				case EventGranted:
					told[e.Token] = true
				case EventGap:
					t.Error("a gap")
				}
			}
		})
		callers.Wait()
		time.Sleep(time.Second)
		cancel()
		reader.Wait()
		if len(want) < 40 {
			t.Errorf("%d leases began after the state of the watch", len(want))
		}
		for token := range want {
			if !told[token] {
				t.Errorf("the lease %d wasn't told", token)
			}
		}
	})
}
