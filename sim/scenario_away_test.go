package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

// longAway is how long a voter is away. A mesh with dynamic membership has voted the voter out by
// then; a fixed list of voters would have waited.
var longAway = electorate.FailAfter(sceneTTL) + 3*changeTime()

// TestFault74OneAwayForLongThenAnother shows that dynamic membership survives whatever a fixed list
// of voters survives. A voter is away for long and comes back, and at once as many other voters go
// away as a fixed list can spare.
func TestFault74OneAwayForLongThenAnother(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	for _, row := range []struct {
		name   string
		voters int
		node   string   // takes locks all the time
		first  []string // are away for long, one after the other
		back   []string // come back
		then   []string // are away from then on
	}{
		{"three voters", 3, "a", []string{"c"}, []string{"c"}, []string{"b"}},
		{"three voters, and the first in order", 3, "b", []string{"a"}, []string{"a"}, []string{"c"}},
		{"five voters, of which one is away", 5, "b", []string{"e"}, []string{"e"}, []string{"c", "d"}},
		{"five voters, of which one is away, and another", 5, "b", []string{"e"}, nil, []string{"d"}},
		{"five voters, of which two are away", 5, "b", []string{"e", "d"}, nil, nil},
	} {
		pause := func(f *Dynamic) time.Duration {
			s := stage(t, Options{Voters: row.voters, Dynamic: f})
			if f != nil {
				s.founded()
			}
			s.Run(2 * sceneTTL)
			x := s.takes(row.node)
			for _, v := range row.first {
				s.PowerOff(v)
				s.Run(longAway)
			}
			for _, v := range row.back {
				s.Start(v)
			}
			s.Run(sceneTTL + learning) // a restarted voter is quiet
			for _, v := range row.then {
				s.PowerOff(v)
			}
			s.Run(longAway)
			x.ends(longAway)
			return x.pause
		}
		t.Run(row.name, func(t *testing.T) {
			fixed, living := pause(nil), pause(&Dynamic{})
			if living > fixed+time.Second {
				t.Errorf("a request waits for up to %v, where it is %v with a fixed list of voters", living, fixed)
			}
		})
	}
}
