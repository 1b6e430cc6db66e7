//go:build !race

package elect

// raced says that the race detector watches.
const raced = false
