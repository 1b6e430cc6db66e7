package proctest

import "testing"

// A node with a lock command from before its readiness prints "granted" and "settled" in either
// order. A test that awaits both events finds both.
func TestWhatAProcessReachedIsFoundHoweverOld(t *testing.T) {
	for _, order := range [][]string{{"settled", "granted"}, {"granted", "settled"}} {
		p := &process{t: t, name: "a", ended: make(chan struct{}), news: make(chan struct{})}
		for _, event := range order {
			p.lines = append(p.lines, line{Event: event, Key: "k"})
		}
		close(p.ended) // so a line that isn't found fails the test at once
		p.awaitEvent("granted", "k")
		if got := p.reached("settled"); got.Event != "settled" {
			t.Errorf("after %v the test was given %+v", order, got)
		}
	}
}
