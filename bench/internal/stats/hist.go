package stats

import (
	"maps"
	"math"
	"slices"
)

// Hist counts durations in buckets, each 2 % wider than the bucket before: narrow enough for a
// curve, and few enough to send and to add up.
type Hist map[int]int

const width = 1.02

// Add counts a duration, in nanoseconds.
func (h Hist) Add(ns int64) { h[int(math.Floor(math.Log(float64(max(ns, 1)))/math.Log(width)))]++ }

// Merge adds the counts of another Hist.
func (h Hist) Merge(o Hist) {
	for b, n := range o {
		h[b] += n
	}
}

// Point is a step of a distribution: the share of all durations up to NS nanoseconds.
type Point struct {
	NS    float64
	Share float64
}

// CDF returns the cumulative distribution, by rising duration.
func (h Hist) CDF() []Point {
	total := 0
	for _, n := range h {
		total += n
	}
	points := make([]Point, 0, len(h))
	sum := 0
	for _, b := range slices.Sorted(maps.Keys(h)) {
		sum += h[b]
		points = append(points, Point{NS: math.Pow(width, float64(b+1)), Share: float64(sum) / float64(total)})
	}
	return points
}
