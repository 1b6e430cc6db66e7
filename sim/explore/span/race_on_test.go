//go:build race

package span

// raced says that the race detector watches. A run has one goroutine, so there is little for it to see, and it makes a search ten times
// as slow: the tests then keep to the smallest spaces.
const raced = true
