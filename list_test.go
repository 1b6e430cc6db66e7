package lockmesh

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestAListHasEveryKeyInPages(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		var want []string
		for i := range 25 {
			key := fmt.Sprintf("jobs/%02d", i)
			must[*Lease](t)([]*Mesh{a, b, c}[i%3].Lock(t.Context(), key, WithValue([]byte(key))))
			want = append(want, key)
		}
		must[*Lease](t)(a.Lock(t.Context(), "job"))
		must[*Lease](t)(a.Lock(t.Context(), "jobs0"))
		must[*Lease](t)(b.Semaphore("jobs/17+", 3).Acquire(t.Context()))
		want = slices.Insert(want, 18, "jobs/17+")
		// A list has each key right after the grant.
		for _, most := range []int{1, 7, 26, 27, 0} {
			var got []string
			pages, after := 0, ""
			for {
				page := must[Page](t)(c.ListPage(t.Context(), "jobs/", after, most))
				if most > 0 && len(page.Keys) > most {
					t.Fatalf("a page of %d has %d keys", most, len(page.Keys))
				}
				for _, info := range page.Keys {
					got = append(got, info.Key)
					if len(info.Holders) != 1 || len(info.Waiters) != 0 {
						t.Errorf("%+v", info)
					} else if v := string(info.Holders[0].Value); info.Key != "jobs/17+" && v != info.Key || (info.Permits == 3) != (info.Key == "jobs/17+") {
						t.Errorf("%+v", info)
					}
				}
				pages++
				if after = page.Next; after == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d: %q", most, got)
			}
			if most > 0 && pages < len(want)/most {
				t.Errorf("%d pages of %d", pages, most)
			}
		}
		all := 0
		for _, err := range b.List(t.Context(), "") {
			if all++; err != nil {
				t.Fatal(err)
			}
		}
		if all != len(want)+2 {
			t.Errorf("%d keys in all", all)
		}
		for info := range b.List(t.Context(), "") {
			if info.Key != "job" {
				t.Errorf("the first is %q", info.Key)
			}
			break
		}
	})
}

// A list of more keys than a page may have shows each lasting key once, while other keys come and
// go.
func TestAListWhileKeysComeAndGo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		const keys = 2*MaxPageKeys + 10
		for i := range keys {
			must[*Lease](t)([]*Mesh{a, b, c}[i%3].Lock(t.Context(), fmt.Sprintf("k%05d", i)))
		}
		ctx, stop := context.WithCancel(t.Context())
		busy := make(chan struct{})
		go func() {
			defer close(busy)
			for n := 0; ctx.Err() == nil; n++ {
				if l, err := b.Lock(ctx, fmt.Sprintf("k%05d+", n*37%keys)); err == nil {
					_ = l.Unlock(ctx)
				}
				time.Sleep(time.Millisecond) // time passes only while all goroutines wait
			}
		}()
		lasting := 0
		last := ""
		for info, err := range a.List(t.Context(), "k") {
			if err != nil {
				t.Fatal(err)
			}
			if info.Key <= last {
				t.Fatalf("%q after %q", info.Key, last)
			}
			if last = info.Key; len(last) == len("k00000") {
				lasting++
			}
		}
		if lasting != keys {
			t.Errorf("%d of %d keys", lasting, keys)
		}
		stop()
		<-busy
	})
}

// A key handed off among the callers of one node has one holder for all nodes: the node, with the
// beginning of the first lease. A list shows the token of the first lease, and Inspect the token of
// the present lease; after an inspection this lease is handed off no more. Only Inspect on the
// holder's node shows the callers in the node's local queue.
func TestALookAtAKeyThatIsPassedOnWithinItsNode(t *testing.T) {
	inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		d := w.client() // without a vote
		before := time.Now()
		held := passedOn(t, a, "k")
		passed := time.Now()
		first := held.Token() - 1
		var waiting []<-chan outcome
		for range 3 {
			next := later(func() (*Lease, error) { return a.Lock(t.Context(), "k") })
			stillWaits(t, next)
			waiting = append(waiting, next)
		}
		time.Sleep(DefaultMaxTTL) // hand-offs go to requests older than the newest renewal
		for left := len(waiting); ; left-- {
			for name, m := range map[string]*Mesh{"a": a, "b": b, "d": d} {
				page := must[Page](t)(m.ListPage(t.Context(), "", "", 0))
				if len(page.Keys) != 1 || page.Keys[0].Key != "k" || page.Next != "" {
					t.Fatalf("%s lists %+v", name, page)
				}
				isPassedOn(t, name+" lists", page.Keys[0], first, 0, before, passed)
			}
			if left == 1 {
				break
			}
			unlock(t, held)
			next := <-waiting[len(waiting)-left]
			if next.err != nil {
				t.Fatal(next.err)
			}
			if next.lease.Token() != held.Token()+1 {
				t.Fatalf("token %d after %d: the lease wasn't passed on", next.lease.Token(), held.Token())
			}
			held = next.lease
		}
		for name, m := range map[string]*Mesh{"a": a, "b": b, "d": d} {
			waiters := 0
			if m == a {
				waiters = 1
			}
			isPassedOn(t, name+" inspects", must[Info](t)(m.Inspect(t.Context(), "k")), held.Token(), waiters, before, passed)
		}
		unlock(t, held)
		last := <-waiting[len(waiting)-1]
		if last.err != nil || last.lease.Token() <= first+31 {
			t.Fatalf("after an inspection the lease was passed on: %v, %v", last.lease, last.err)
		}
		unlock(t, last.lease)
		for name, m := range map[string]*Mesh{"a": a, "b": b, "d": d} {
			if info := must[Info](t)(m.Inspect(t.Context(), "k")); len(info.Holders)+len(info.Waiters) != 0 {
				t.Errorf("all is over, and %s shows %+v", name, info)
			}
		}
	})
}

// isPassedOn demands that a view shows node a as the only holder, with the token and with a
// beginning well before passed, the time of the hand-off, and shows the number of waiters of node
// a.
func isPassedOn(t *testing.T, who string, info Info, token uint64, waiters int, before, passed time.Time) {
	t.Helper()
	if len(info.Holders) != 1 || len(info.Waiters) != waiters {
		t.Errorf("%s: %d holders and %d waiters, want 1 and %d: %+v", who, len(info.Holders), len(info.Waiters), waiters, info)
		return
	}
	h := info.Holders[0]
	if h.Node != "a" || h.Token != token || h.Mode != ModeExclusive || h.Unsure || h.Left <= 0 || h.Left > DefaultMaxTTL {
		t.Errorf("%s: the holder is %+v, want node a, token %d", who, h, token)
	}
	if h.Since.Before(before) || !h.Since.Before(passed.Add(-DefaultMaxTTL/2)) {
		t.Errorf("%s: held since %v; the first lease was granted after %v, and passed on at %v", who, h.Since, before, passed)
	}
	for _, waiter := range info.Waiters {
		if waiter.Node != "a" || waiter.Mode != ModeExclusive || waiter.Try {
			t.Errorf("%s: a waiter is %+v", who, waiter)
		}
	}
}

func TestAListSaysWhatIsWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		for _, most := range []int{-1, MaxPageKeys + 1} {
			_, err := a.ListPage(t.Context(), "", "", most)
			wantIs(t, err, ErrOption)
		}
		_, err := a.ListPage(t.Context(), "\x00", "", 1)
		wantIs(t, err, ErrKey)
		_, err = a.ListPage(t.Context(), "", "\xff", 1)
		wantIs(t, err, ErrKey)
		if page := must[Page](t)(a.ListPage(t.Context(), "nothing", "", 0)); len(page.Keys) != 0 || page.Next != "" {
			t.Errorf("%+v", page)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range a.List(ctx, "") {
			wantIs(t, err, context.Canceled)
		}
	})
}
