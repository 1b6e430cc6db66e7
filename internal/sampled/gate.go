//go:build !hunt

package sampled

// Whole says that tests try all cases.
const Whole = false
