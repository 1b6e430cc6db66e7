//go:build !race

package proctest

// raceEnabled tells whether the race detector is on.
const raceEnabled = false
