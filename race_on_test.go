//go:build race

package lockmesh

// raced says that the race detector watches, which allocates for itself.
const raced = true
