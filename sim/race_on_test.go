//go:build race

package sim

// raced says that the race detector watches. A world has one goroutine, so there is little for it to see, and it makes a run ten times as slow: the
// longest tests then do a part of what they do otherwise.
const raced = true
