//go:build race

package proctest

// raceEnabled tells whether the race detector is on. Then locknode is built with it, too.
const raceEnabled = true
