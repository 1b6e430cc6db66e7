package stats

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	in := []float64{5, 1, 3}
	if m := Median(in); m != 3 || in[0] != 5 {
		t.Errorf("the median of 5, 1, 3 is %v, and they are now %v", m, in)
	}
	if m := Median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("the median of 4, 1, 3, 2 is %v", m)
	}
	if m := Median(nil); !math.IsNaN(m) {
		t.Errorf("the median of nothing is %v", m)
	}
}

func TestQuantile(t *testing.T) {
	s := make([]int, 100)
	for i := range s {
		s[i] = i + 1
	}
	for q, want := range map[float64]int{0: 1, 0.5: 50, 0.99: 99, 0.995: 100, 1: 100} {
		if got := Quantile(s, q); got != want {
			t.Errorf("the quantile %v of 1 to 100 is %d, want %d", q, got, want)
		}
	}
	if got := Quantile([]int(nil), 0.5); got != 0 {
		t.Errorf("a quantile of nothing is %d", got)
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{{[]float64{7, 7, 7, 7}, 1}, {[]float64{9, 0, 0, 0}, 0.25}, {[]float64{1, 1, 0, 0}, 0.5}} {
		if got := Jain(c.shares); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("the index of %v is %v, want %v", c.shares, got, c.want)
		}
	}
	if got := Jain([]float64{0, 0}); !math.IsNaN(got) {
		t.Errorf("the index of nothing is %v", got)
	}
}

func TestHist(t *testing.T) {
	h, o := Hist{}, Hist{}
	for range 50 {
		h.Add(1000)
		o.Add(1_000_000)
	}
	o.Add(0) // counts as the shortest
	h.Merge(o)
	cdf := h.CDF()
	if len(cdf) != 3 {
		t.Fatalf("three durations make %d steps", len(cdf))
	}
	if p := cdf[1]; p.NS < 1000 || p.NS > 1000*width*width || math.Abs(p.Share-51.0/101) > 1e-9 {
		t.Errorf("51 of 101 are at most 1 µs, and it says %v", p)
	}
	if p := cdf[2]; p.Share != 1 || p.NS < 1e6 {
		t.Errorf("all are at most 1 ms, and it says %v", p)
	}
}
