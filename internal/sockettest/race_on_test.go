//go:build race

package sockettest

// raced says that the race detector watches, which allocates for itself.
const raced = true
