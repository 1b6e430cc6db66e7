// Package stats has the few statistics needed by the benchmarks.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Median returns the middle of values, or the mean of the two in the middle, or NaN without values.
// Median leaves values unchanged.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// Quantile returns the q-quantile of a sorted list by nearest rank, so always a measured value: a
// share q of all values is at most as large. Quantile returns zero for an empty list.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	var none T
	n := len(sorted)
	if n == 0 {
		return none
	}
	rank := int(math.Ceil(q * float64(n)))
	return sorted[min(max(rank, 1), n)-1]
}

// Jain returns Jain's fairness index of several shares: 1 if all shares are equal, 1/n if a single
// share is everything, NaN if all shares are zero.
func Jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(shares)) * squares)
}
