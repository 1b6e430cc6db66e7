package lockmesh

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// Inspect shows the time to the end of a lease of a set length, up to the time taken by messages:
// from the grant on, without any extension, and whatever happens to the voters and to the lease
// meanwhile.
func TestWhatIsLeftOfALeaseOfASetLength(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	sampled.Unraced(t)
	const latency = time.Millisecond
	// late is the time for which a voter is out of reach during a grant.
	const late = 300 * time.Millisecond
	type mesh struct {
		*wire
		b, c, d *Mesh
	}
	options := func(length time.Duration) []Option { return []Option{WithTTL(length), WithoutRenewal()} }
	lock := func(t *testing.T, m *mesh, length time.Duration) *Lease {
		return must[*Lease](t)(m.d.Lock(t.Context(), "k", options(length)...))
	}
	read := func(t *testing.T, m *mesh, length time.Duration) *Lease {
		return must[*Lease](t)(m.d.RLock(t.Context(), "k", options(length)...))
	}
	for i, row := range []struct {
		name  string
		grant func(t *testing.T, m *mesh, length time.Duration) *Lease
		// after runs when a tenth of the lease is over.
		after func(t *testing.T, m *mesh, l *Lease, length time.Duration)
		off   time.Duration // the largest surplus in the time shown
	}{
		{name: "nothing happens", grant: lock},
		{name: "a permit", grant: func(t *testing.T, m *mesh, length time.Duration) *Lease {
			return must[*Lease](t)(m.d.Semaphore("k", 2).Acquire(t.Context(), options(length)...))
		}},
		{name: "granted after a wait", grant: func(t *testing.T, m *mesh, length time.Duration) *Lease {
			before := must[*Lease](t)(m.b.Lock(t.Context(), "k"))
			time.AfterFunc(time.Minute, func() { _ = before.Unlock(t.Context()) })
			return lock(t, m, length)
		}},
		{name: "a voter hears late of the grant", off: late, grant: func(t *testing.T, m *mesh, length time.Duration) *Lease {
			m.stall("c", true)
			time.AfterFunc(late, func() { m.stall("c", false) })
			return lock(t, m, length)
		}},
		{name: "a voter starts anew", grant: lock, after: func(t *testing.T, m *mesh, _ *Lease, _ time.Duration) {
			if err := m.c.Close(); err != nil {
				t.Fatal(err)
			}
			m.join("c", []string{"a", "b", "c"}, nil)
		}},
		{name: "a voter is out of reach for long", grant: lock, after: func(t *testing.T, m *mesh, _ *Lease, length time.Duration) {
			m.stall("c", true)
			time.AfterFunc(length/5, func() { m.stall("c", false) })
		}},
		{name: "it is downgraded", grant: lock, after: func(t *testing.T, _ *mesh, l *Lease, _ time.Duration) {
			if err := l.Downgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "it is upgraded, after a wait", grant: read, after: func(t *testing.T, m *mesh, l *Lease, length time.Duration) {
			other := must[*Lease](t)(m.b.RLock(t.Context(), "k"))
			time.AfterFunc(length/10, func() { _ = other.Unlock(t.Context()) })
			if err := l.Upgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for j, length := range []time.Duration{2 * time.Second, 9 * time.Second, time.Hour} {
			if j > 0 && !sampled.Case(i+j, 2) {
				continue
			}
			t.Run(row.name+", "+length.String(), func(t *testing.T) {
				inBubbleOver(t, latency, func(t *testing.T, w *wire) {
					a, b, c := w.three()
					d := w.join("d", []string{"a", "b", "c"}, nil)
					if err := d.Ready(t.Context()); err != nil {
						t.Fatal(err)
					}
					l := row.grant(t, &mesh{w, b, c, d}, length)
					end := time.Now().Add(length)
					for i := range 40 {
						for _, m := range []*Mesh{a, b, d} {
							left := leftAt(t, m, "k")
							if more := left - time.Until(end); more < 0 || more > row.off+10*latency {
								t.Fatalf("%v before the end %s sees %v to be left, %v too much",
									time.Until(end), m.Name(), left, more)
							}
						}
						if i == 20 && row.after != nil {
							row.after(t, &mesh{w, b, c, d}, l, length)
						}
						if i < 20 { // often at first
							time.Sleep(length / 200)
						} else {
							time.Sleep(length / 30)
						}
					}
					if l.Err() != nil {
						t.Error(l.Err())
					}
				})
			})
		}
	}
}
