package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// jain is Jain's index of fairness: 1 if all get the same share, 1/n if a single user gets
// everything (Jain, Chiu, Hawe, 1984).
func jain(got []int) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range got {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	return sum * sum / (float64(len(got)) * squares)
}

// TestWaitersAreServedFairly has sixteen users on four nodes request one key for ten seconds, each
// again as soon as its lease is released, and demands nearly equal shares.
func TestWaitersAreServedFairly(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, row := range []struct {
		name    string
		voters  int
		clients int
		ask     func(i int) Ask
		counts  func(i int) bool // the users compared; nil: all
	}{
		{"a lock", 3, 1, func(int) Ask { return Ask{} }, nil},
		{"a lock, four voters", 4, 0, func(int) Ask { return Ask{} }, nil},
		{"three permits", 3, 1, func(int) Ask { return Ask{Mode: Permit, Permits: 3} }, nil},
		{"writers among readers", 3, 1, func(i int) Ask {
			if i < 8 {
				return Ask{Mode: Shared}
			}
			return Ask{}
		}, func(i int) bool { return i >= 8 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := awake(t, Options{Voters: row.voters, Clients: row.clients, Net: Net{Least: time.Millisecond, Most: 2 * time.Millisecond}})
			s.Run(calmTTLs*sceneTTL + servedFixed)
			got, end := make([]int, 16), s.Now()+10*time.Second
			var turn func(i int)
			turn = func(i int) {
				if s.Now() >= end {
					return
				}
				a := row.ask(i)
				a.Node, a.Key = s.hosts[i%len(s.hosts)].alias, "k"
				r := s.Ask(a)
				s.watch(r, func() {
					got[i]++
					s.At(2*time.Millisecond, func() { s.Release(r); turn(i) })
				})
			}
			for i := range got {
				turn(i)
			}
			s.Run(11 * time.Second)
			var counted []int
			for i, n := range got {
				if row.counts == nil || row.counts(i) {
					counted = append(counted, n)
				}
			}
			if x := jain(counted); x < 0.99 {
				t.Errorf("Jain's index is %.4f: %v", x, counted)
			} else {
				t.Logf("Jain's index is %.4f: %v; most overtaken %d", x, got, s.Figures().MostOvertaken)
			}
			if counted[0] < 10 {
				t.Errorf("few turns show nothing: %v", counted)
			}
		})
	}
}

// watch calls f soon after a request is granted.
func (w *World) watch(r *Request, f func()) {
	w.At(time.Millisecond/2, func() {
		switch r.State {
		case Waiting:
			w.watch(r, f)
		case Granted:
			f()
		}
	})
}
