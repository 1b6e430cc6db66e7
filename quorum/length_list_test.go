package quorum

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A lengthList keeps its order, knows the index of each request, and gives memory back.
func TestLengthListKeepsItsOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var l lengthList
	var want []*request
	for range 20_000 {
		if n := len(want); n > 0 && (rnd.IntN(100) < 49 || n > 500) {
			i := rnd.IntN(n)
			l.remove(want[i])
			want = slices.Delete(want, i, i+1)
		} else {
			r := &request{tally: tally{cold: &coldFields{}}}
			l.add(r)
			want = append(want, r)
		}
		if l.len() != len(want) {
			t.Fatalf("%d requests are listed, want %d", l.len(), len(want))
		}
		if len(l.all) > 2*len(want)+2 {
			t.Fatalf("%d places for %d requests", len(l.all), len(want))
		}
	}
	got := slices.DeleteFunc(slices.Clone(l.all), func(r *request) bool { return r == nil })
	if !slices.Equal(got, want) {
		t.Error("the order has changed")
	}
}
