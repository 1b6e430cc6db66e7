// Package stats has the few sums that the benchmarks need.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Median returns the middle of values, or the mean of the two in the middle; NaN of none. It leaves values as they are.
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

// Quantile returns the value of a sorted list below or at which a share q of all values is: the nearest rank, so it is one that was measured. Zero of none.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	var none T
	n := len(sorted)
	if n == 0 {
		return none
	}
	rank := int(math.Ceil(q * float64(n)))
	return sorted[min(max(rank, 1), n)-1]
}

// Jain returns Jain's fairness index of what each of several got: 1 if all got the same, 1/n if one got everything, NaN if nobody got anything.
func Jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(shares)) * squares)
}
