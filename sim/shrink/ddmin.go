package shrink

import "slices"

// ddmin shortens a failing list as far as it can by leaving out parts, larger parts first, until no
// single item can be removed. The algorithm is from Zeller and Hildebrandt, "Simplifying and
// Isolating Failure-Inducing Input", IEEE Transactions on Software Engineering 28(2), 2002.
//
// fails tries a shorter list. If the shorter list still fails, fails returns the part needed for
// the failure, possibly an even shorter list.
func ddmin[T any](items []T, fails func([]T) ([]T, bool)) []T {
	if len(items) == 0 {
		return items
	}
	if kept, ok := fails(nil); ok {
		return kept
	}
	for parts := 2; len(items) >= 2; {
		size := (len(items) + parts - 1) / parts
		less, ok := ddminOnce(items, size, fails)
		switch {
		case ok && len(less) <= size: // one part alone fails
			items, parts = less, 2
		case ok:
			items, parts = less, max(parts-1, 2)
		case size == 1:
			return items
		default:
			parts = min(2*parts, len(items))
		}
	}
	return items
}

// ddminOnce tries each part of a list alone, and then the list without each part.
func ddminOnce[T any](items []T, size int, fails func([]T) ([]T, bool)) ([]T, bool) {
	for part := range slices.Chunk(items, size) {
		if kept, ok := fails(slices.Clone(part)); ok {
			return kept, true
		}
	}
	if 2*size >= len(items) {
		return nil, false // with two halves, the list without one half is the other half
	}
	for from := 0; from < len(items); from += size {
		rest := slices.Concat(items[:from], items[min(from+size, len(items)):])
		if kept, ok := fails(rest); ok {
			return kept, true
		}
	}
	return nil, false
}
