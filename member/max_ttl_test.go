package member

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/transport"
)

// With dynamic membership and a recent wire version the voters decide the maximum TTL; gossip then
// leaves the comparison to the handshake.
func TestGossipTakesMembersWithAnotherMaxTTLWhereTheVotersDecideIt(t *testing.T) {
	if decidedTTL != transport.DecidedTTLVersion {
		t.Errorf("gossip takes wire version %d for the first with a decided maximum TTL; it is %d", decidedTTL, transport.DecidedTTLVersion)
	}
	terms := func(newest uint, dynamic bool, maxTTL time.Duration) map[string]string {
		return Terms{VersionMin: 1, VersionMax: newest, RhoPerMille: 5, MaxTTL: maxTTL, Dynamic: dynamic}.tags(1)
	}
	for _, c := range []struct {
		name         string
		ours, theirs map[string]string
		takes        bool
	}{
		{"dynamic", terms(2, true, time.Second), terms(2, true, 2*time.Second), true},
		{"dynamic, of an earlier version", terms(2, true, time.Second), terms(1, true, 2*time.Second), false},
		{"dynamic, of a later version", terms(2, true, time.Second), terms(3, true, 2*time.Second), true},
		{"fixed", terms(2, false, time.Second), terms(2, false, 2*time.Second), false},
		{"the same, of an earlier version", terms(2, true, time.Second), terms(1, true, time.Second), true},
	} {
		if err := differs(c.ours, c.theirs); (err == nil) != c.takes {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
