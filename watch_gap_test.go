package lockmesh

import (
	"testing"
	"testing/synctest"
	"time"
)

// links is a network with single links cut, both ways: "ab" is the link between nodes a and b.
func (w *wire) links(cut ...string) {
	w.Cut(func(from, to string) bool {
		for _, l := range cut {
			if l == from+to || l == to+from {
				return true
			}
		}
		return false
	})
	synctest.Wait()
}

// restart ends a voter and starts it again, and waits until the votes of the new process count.
func (w *wire) restart(m *Mesh) *Mesh {
	w.t.Helper()
	name := m.Name()
	if err := m.Close(); err != nil {
		w.t.Error(err)
	}
	again := w.join(name, []string{"a", "b", "c"}, nil)
	time.Sleep(DefaultMaxTTL + 5*time.Second)
	if err := again.Ready(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	return again
}

// unseen has node d watch a key, and a lease come and go on the key with these links cut: the
// voters in touch with the holder's node e know of the lease, and none has reported it to d.
func (w *wire) unseen(cut ...string) (a, b, c *Mesh, watch *Watch) {
	w.t.Helper()
	a, b, c = w.three()
	d, e := w.join("d", []string{"a", "b", "c"}, nil), w.join("e", []string{"a", "b", "c"}, nil)
	watch = must[*Watch](w.t)(d.Watch(w.t.Context(), "k"))
	wantSeen(w.t, watch, "synced")
	w.links(cut...)
	w.HangUp("d") // otherwise reports on their way would come after the cut
	time.Sleep(5 * time.Second)
	unlock(w.t, must[*Lease](w.t)(e.Lock(w.t.Context(), "k")))
	if err := e.Close(); err != nil {
		w.t.Error(err)
	}
	wantSeen(w.t, watch)
	return a, b, c, watch
}

// Voters b and c alone know of a lease that came and went while the watching node d was cut off
// from both. First c restarts, then b: each time a majority of the voters is left that has had no
// gap, or whose present state has been queried since; but the lease is in no report and no state.
func TestTwoVotersThatForgetOneAfterTheOtherAreAGap(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		_, b, c, watch := w.unseen("db", "dc", "ea")
		w.links("db", "dc")
		w.restart(c)
		w.links("db")
		time.Sleep(time.Minute) // a and c answer the query
		w.restart(b)
		w.links()
		time.Sleep(time.Minute)
		wantSeen(t, watch, "gap", "synced")
	})
}

// After a gap a watch tells of no event from before: a voter that was cut off from the watching
// node d, and has forgotten nothing, still has the events of an earlier lease to report.
func TestNoEventFromBeforeAGapIsToldAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		_, b, c, watch := w.unseen("da", "db", "ec")
		w.links("da", "db")
		b = w.restart(b)
		w.restart(c)
		w.links("da")
		time.Sleep(time.Minute)
		wantSeen(t, watch, "gap", "synced")
		w.links()
		time.Sleep(time.Minute)
		wantSeen(t, watch)
		l := must[*Lease](t)(b.Lock(t.Context(), "k"))
		wantSeen(t, watch, "granted k b")
		unlock(t, l)
	})
}
