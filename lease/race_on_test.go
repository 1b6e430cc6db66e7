//go:build race

package lease

// raced says that the race detector watches, which takes memory of its own.
const raced = true
