//go:build race

package quorum

// raced says that the race detector watches, which allocates for itself.
const raced = true
