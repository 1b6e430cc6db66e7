//go:build !race

package explore

// raced says that the race detector watches.
const raced = false
