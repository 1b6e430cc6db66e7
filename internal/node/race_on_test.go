//go:build race

package node

// raced says that the race detector watches, which allocates for itself.
const raced = true
