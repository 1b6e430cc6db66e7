package member

import (
	"testing"
	"time"
)

// Gossip accepts a converting node as a node of either kind; versions without conversions accept a
// converting node as a fixed node.
func TestGossipTakesAConvertingNodeForOneOfEitherKind(t *testing.T) {
	terms := func(dynamic, converting bool, maxTTL time.Duration) map[string]string {
		return Terms{VersionMin: 1, VersionMax: 2, RhoPerMille: 5, MaxTTL: maxTTL, Dynamic: dynamic, Converting: converting}.tags(1)
	}
	fixed, converting, dynamic := terms(false, false, time.Second), terms(false, true, time.Second), terms(true, false, time.Second)
	earlier := terms(false, true, time.Second)
	delete(earlier, tagConverting) // as a version without the tag sees a converting node
	for _, c := range []struct {
		name         string
		ours, theirs map[string]string
		takes        bool
	}{
		{"fixed and converting", fixed, converting, true},
		{"converting twice", converting, converting, true},
		{"converting and dynamic", converting, dynamic, true},
		{"fixed and dynamic", fixed, dynamic, false},
		{"fixed of an earlier version and converting", fixed, earlier, true},
		{"dynamic of an earlier version and converting", dynamic, earlier, false},
		{"fixed and converting, another MaxTTL", fixed, terms(false, true, 2*time.Second), false},
		{"converting twice, another MaxTTL", converting, terms(false, true, 2*time.Second), false},
		{"converting and dynamic, another MaxTTL", converting, terms(true, false, 2*time.Second), true},
	} {
		if err := differs(c.ours, c.theirs); (err == nil) != c.takes {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := differs(c.theirs, c.ours); (err == nil) != c.takes {
			t.Errorf("%s, the other way round: %v", c.name, err)
		}
	}
}
