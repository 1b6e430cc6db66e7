//go:build !race

package span

// raced says that the race detector watches.
const raced = false
