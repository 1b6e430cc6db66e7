//go:build race

package sampled

// Raced says that the race detector watches, which takes memory and allocations of its own and
// makes computing about ten times as slow.
const Raced = true
