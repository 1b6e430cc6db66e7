package sim

import "slices"

// ddmin makes a list that fails as short as it can by leaving parts out, larger ones first, until no single item can go. It is the algorithm
// of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on Software Engineering 28(2), 2002.
//
// fails tries a shorter list. If that still fails, it returns what is needed of it, which may be shorter still.
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
		case ok && len(less) <= size: // a part alone
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

// ddminOnce tries each part of a list alone, and then the list without it.
func ddminOnce[T any](items []T, size int, fails func([]T) ([]T, bool)) ([]T, bool) {
	for part := range slices.Chunk(items, size) {
		if kept, ok := fails(slices.Clone(part)); ok {
			return kept, true
		}
	}
	if 2*size >= len(items) {
		return nil, false // without a half there's the other half
	}
	for from := 0; from < len(items); from += size {
		rest := slices.Concat(items[:from], items[min(from+size, len(items)):])
		if kept, ok := fails(rest); ok {
			return kept, true
		}
	}
	return nil, false
}
