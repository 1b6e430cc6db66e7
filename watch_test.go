package lockmesh

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// seen collects the events of a watch, as texts, until no further event comes.
func seen(t *testing.T, w *Watch) []string {
	t.Helper()
	var words []string
	for {
		synctest.Wait()
		select {
		case e, ok := <-w.Events():
			if !ok {
				return append(words, "end")
			}
			words = append(words, inWords(e))
		default:
			return words
		}
	}
}

func inWords(e Event) string {
	var b strings.Builder
	b.WriteString(e.Kind.String())
	if e.Current {
		b.WriteByte('!')
	}
	if e.Node != "" {
		fmt.Fprintf(&b, " %s %s", e.Key, e.Node)
	}
	if e.Kind == EventGranted && e.Mode != ModeExclusive || e.Kind == EventChanged {
		fmt.Fprintf(&b, " %v", e.Mode)
	}
	if len(e.Value) > 0 && e.Kind != EventWaiting {
		fmt.Fprintf(&b, " %s", e.Value)
	}
	return b.String()
}

func wantSeen(t *testing.T, w *Watch, words ...string) {
	t.Helper()
	if got := seen(t, w); !slices.Equal(got, words) {
		t.Errorf("saw %q, want %q", got, words)
	}
}

func TestAWatchTellsWhatHappensInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		before := must[*Lease](t)(b.Lock(t.Context(), "k", WithValue([]byte("v"))))
		synctest.Wait() // all voters know of the lease
		ctx, cancel := context.WithCancel(t.Context())
		watch := must[*Watch](t)(c.Watch(ctx, "k"))
		wantSeen(t, watch, "granted! k b v", "synced")
		time.Sleep(time.Second)
		next := later(func() (*Lease, error) { return a.Lock(t.Context(), "k") })
		wantSeen(t, watch, "waiting k a")
		if err := before.SetValue(t.Context(), []byte("w")); err != nil {
			t.Fatal(err)
		}
		unlock(t, before)
		wantSeen(t, watch, "changed k b exclusive w", "released k b w", "granted k a")
		l := (<-next).lease
		must[*Lease](t)(a.Lock(t.Context(), "other"))
		if err := l.Downgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantSeen(t, watch, "changed k a shared") // by then all voters know
		r := must[*Lease](t)(b.RLock(t.Context(), "k"))
		wantSeen(t, watch, "granted k b shared")
		unlock(t, l)
		if err := r.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		unlock(t, r)
		wantSeen(t, watch, "released k a", "changed k b exclusive", "released k b")
		s := must[*Lease](t)(a.Semaphore("k", 2).Acquire(t.Context()))
		unlock(t, s)
		wantSeen(t, watch, "granted k a permit", "released k a")
		cancel()
		wantSeen(t, watch, "end")
		wantIs(t, watch.Err(), context.Canceled)
	})
}

func TestAWatchsEventsHaveTheLeasesTokensAndTimes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		l := must[*Lease](t)(b.RLock(t.Context(), "k"))
		since := time.Now()
		time.Sleep(time.Second)
		watch := must[*Watch](t)(a.Watch(t.Context(), "k"))
		e := <-watch.Events()
		if e.Token != l.Token() || e.Mode != ModeShared || !e.Current || e.At.Sub(since).Abs() > 10*time.Millisecond {
			t.Errorf("%+v", e)
		}
		if e = <-watch.Events(); e.Kind != EventSynced || time.Since(e.At) > 10*time.Millisecond {
			t.Errorf("%+v", e)
		}
		token := l.Token()
		if err := l.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e = <-watch.Events(); e.Kind != EventChanged || e.Previous != token || e.Token != l.Token() || e.Mode != ModeExclusive || time.Since(e.At) > 10*time.Millisecond {
			t.Errorf("%+v", e)
		}
		unlock(t, l)
		p := must[*Lease](t)(c.Semaphore("k", 3).Acquire(t.Context()))
		if e = <-watch.Events(); e.Kind != EventReleased || e.Token != l.Token() {
			t.Errorf("%+v", e)
		}
		if e = <-watch.Events(); e.Kind != EventGranted || e.Token != p.Token() || e.Slot != p.Slot() || e.Node != "c" {
			t.Errorf("%+v", e)
		}
	})
}

func TestAWatchOfAPrefix(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		for i := range 100 {
			must[*Lease](t)([]*Mesh{a, b, c}[i%3].Lock(t.Context(), fmt.Sprintf("jobs/%02d", i), WithValue(make([]byte, MaxValueLen))))
		}
		must[*Lease](t)(a.Lock(t.Context(), "other"))
		synctest.Wait()
		for _, c1 := range []struct {
			prefix string
			many   int
		}{{"", 101}, {"jobs/", 100}, {"jobs/1", 10}, {"x", 0}} {
			prefix, many := c1.prefix, c1.many
			watch := must[*Watch](t)(b.WatchPrefix(t.Context(), prefix))
			got := 0
			for e := range watch.Events() {
				if e.Kind == EventSynced {
					break
				}
				if e.Kind != EventGranted || !e.Current || !strings.HasPrefix(e.Key, prefix) {
					t.Fatalf("prefix %q: %+v", prefix, e)
				}
				got++
			}
			if got != many {
				t.Errorf("prefix %q: %d, want %d", prefix, got, many)
			}
			l := must[*Lease](t)(c.Lock(t.Context(), prefix+"new"))
			if e := <-watch.Events(); e.Kind != EventGranted || e.Node != "c" || e.Current {
				t.Errorf("prefix %q: %+v", prefix, e)
			}
			unlock(t, l)
			synctest.Wait()
		}
		_, err := a.WatchPrefix(t.Context(), "\x00")
		wantIs(t, err, ErrKey)
		_, err = a.Watch(t.Context(), "")
		wantIs(t, err, ErrKey)
	})
}

func TestADeadHoldersLeaseIsToldToBeLostOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		watch := must[*Watch](t)(c.Watch(t.Context(), "k"))
		wantSeen(t, watch, "synced")
		must[*Lease](t)(a.Lock(t.Context(), "k"))
		time.Sleep(time.Second)
		next := later(func() (*Lease, error) { return b.Lock(t.Context(), "k") })
		wantSeen(t, watch, "granted k a", "waiting k b")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		wantSeen(t, watch)
		if r := <-next; r.err != nil {
			t.Fatal(r.err)
		}
		wantSeen(t, watch, "lost k a", "granted k b")
	})
}

func TestAWatchSurvivesTheRestartOfEachVoterInTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c"}
		nodes := map[string]*Mesh{}
		nodes["a"], nodes["b"], nodes["c"] = w.three()
		d := w.join("d", voters, nil)
		watch := must[*Watch](t)(d.Watch(t.Context(), "k"))
		wantSeen(t, watch, "synced")
		holder := must[*Lease](t)(d.Lock(t.Context(), "k"))
		wantSeen(t, watch, "granted k d")
		for _, name := range voters {
			if err := nodes[name].Close(); err != nil {
				t.Fatal(err)
			}
			nodes[name] = w.join(name, voters, nil)
			time.Sleep(time.Second)
			unlock(t, holder) // while the voter is quiet
			holder = must[*Lease](t)(d.Lock(t.Context(), "k"))
			time.Sleep(15 * time.Second)
			wantSeen(t, watch, "released k d", "granted k d")
		}
	})
}

func TestAGapOfAMajorityIsMarkedAndTheStateFollows(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c"}
		a, b, _ := w.three()
		d := w.join("d", voters, nil)
		e := w.join("e", voters, nil)
		watch := must[*Watch](t)(d.Watch(t.Context(), "k"))
		wantSeen(t, watch, "synced")
		l := must[*Lease](t)(e.Lock(t.Context(), "k"))
		wantSeen(t, watch, "granted k e")
		for _, m := range []*Mesh{a, b} {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		wantIs(t, l.Err(), ErrLost)
		wantSeen(t, watch) // a single voter of three can't know
		w.join("a", voters, nil)
		w.join("b", voters, nil)
		must[*Lease](t)(e.Lock(t.Context(), "k"))
		time.Sleep(time.Second)
		got := strings.Join(seen(t, watch), ", ")
		if got = strings.Replace(got, " waiting! k e,", "", 1); got != "gap, granted! k e, synced" && got != "gap, synced, granted k e" {
			t.Errorf("saw %q", got)
		}
	})
}

func TestAWatchThatIsCutOffSeesWhatItMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c"}
		a, b, _ := w.three()
		d := w.join("d", voters, nil)
		watch := must[*Watch](t)(d.Watch(t.Context(), "k"))
		wantSeen(t, watch, "synced")
		must[*Lease](t)(a.Lock(t.Context(), "k"))
		wantSeen(t, watch, "granted k a")
		w.stall("d", true)
		next := later(func() (*Lease, error) { return b.Lock(t.Context(), "k") })
		time.Sleep(20 * time.Second)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		l := (<-next).lease
		time.Sleep(time.Second)
		wantSeen(t, watch)
		w.stall("d", false)
		time.Sleep(10 * time.Second)
		wantSeen(t, watch, "lost k a", "granted k b") // voters remember
		unlock(t, l)
		wantSeen(t, watch, "released k b")
	})
}

func TestASlowReaderGetsAMarkedGapAndDelaysNoOther(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		watch := must[*Watch](t)(c.Watch(t.Context(), "k"))
		fast := must[*Watch](t)(c.Watch(t.Context(), "k"))
		wantSeen(t, fast, "synced")
		turns := func(n int) {
			for range n {
				unlock(t, must[*Lease](t)(a.Lock(t.Context(), "k")))
				wantSeen(t, fast, "granted k a", "released k a")
			}
		}
		turns(2 * watchQueue)
		time.Sleep(watchPatience - 1)
		turns(1)
		got := seen(t, watch)
		if n := len(got); n != 4*watchQueue+3 || slices.Contains(got, "gap") {
			t.Fatalf("a reader that has waited for less than %v was told %d events", watchPatience, n)
		}
		turns(watchQueue / 2)
		time.Sleep(time.Hour)
		if n := len(seen(t, watch)); n != watchQueue {
			t.Fatalf("a reader for whom no more than %d events waited was told %d", watchQueue, n)
		}
		turns(watchQueue)
		time.Sleep(watchPatience)
		must[*Lease](t)(b.Lock(t.Context(), "k"))
		wantSeen(t, fast, "granted k b")
		got = seen(t, watch)
		// Events under way to the reader aren't discarded.
		i := slices.Index(got, "gap")
		if i < 0 || i > 2 || !slices.Equal(got[i:], []string{"gap", "granted! k b", "synced"}) {
			t.Errorf("a slow reader was told %q", got)
		}
	})
}

// Voters report an event once to all watches of a node on the same keys, and each watch first shows
// the leases held at its start.
func TestWatchesOfTheSameShareWhatVotersTell(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		var words []string
		var watches []*Watch
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 10 {
			key := fmt.Sprintf("k%d", i)
			must[*Lease](t)(b.Lock(t.Context(), key))
			synctest.Wait() // all voters know of the lease
			words = append(words, "granted! "+key+" b")
			for j := range 3 {
				watch := must[*Watch](t)(c.WatchPrefix(ctx, ""))
				synctest.Wait() // the watch has its first state
				if j > 0 {
					watches = append(watches, watch)
					continue
				}
				wantSeen(t, watch, append(slices.Clone(words), "synced")...)
			}
		}
		for _, m := range w.meshes {
			if n := m.eng.Open().VoterWatches; n != 1 {
				t.Errorf("%d watches wait at %s", n, m.Name())
			}
		}
		for i, watch := range watches {
			want := append(slices.Clone(words[:i/2+1]), "synced")
			for _, word := range words[i/2+1:] {
				want = append(want, strings.Replace(word, "!", "", 1))
			}
			wantSeen(t, watch, want...)
		}
		must[*Lease](t)(a.Lock(t.Context(), "z"))
		for _, watch := range watches {
			wantSeen(t, watch, "granted z a")
		}
		cancel()
		synctest.Wait()
		if n := c.eng.Open().Subscriptions; n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

// A watch that joins others on its node shows the leases held at its start, even if the node
// doesn't know of these leases yet: the watch waits for a query begun later.
func TestALaterWatchOfTheSameIsAsNewAsItsBeginning(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c"}
		a, _, _ := w.three()
		d := w.join("d", voters, nil)
		wantSeen(t, must[*Watch](t)(d.Watch(t.Context(), "k")), "synced")
		w.stall("d", true)
		must[*Lease](t)(a.Lock(t.Context(), "k"))
		later := must[*Watch](t)(d.Watch(t.Context(), "k"))
		wantSeen(t, later)
		w.stall("d", false)
		time.Sleep(10 * time.Second)
		wantSeen(t, later, "granted! k a", "synced")
	})
}

func TestAWatchEndsWithItsMesh(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		watch := must[*Watch](t)(a.Watch(t.Context(), "k"))
		if watch.Err() != nil {
			t.Error(watch.Err())
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		for range watch.Events() {
		}
		wantIs(t, watch.Err(), ErrClosed)
		_, err := a.Watch(t.Context(), "k")
		wantIs(t, err, ErrClosed)
	})
}

func TestWatchesAreBoundedAndLeaveNothingBehind(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			for range MaxWatches {
				must[*Watch](t)(a.Watch(ctx, "k"))
			}
			_, err := a.Watch(ctx, "k")
			wantIs(t, err, ErrBusy)
			cancel()
			synctest.Wait()
		}
		for _, m := range w.meshes {
			if n := m.eng.Open().VoterWatches; n != 0 {
				t.Errorf("%d watches wait at %s", n, m.Name())
			}
		}
	})
}
