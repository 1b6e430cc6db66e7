package quorum

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

func elector(name string) vote.Elector {
	return vote.Elector{Name: vote.NodeID(name), Dir: vote.Dir(name[0]-'a') + 1}
}

// version parses "7: a b c (a b)": the version, the voters, and the old voters.
func version(s string) *vote.Electorate {
	e := &vote.Electorate{Lineage: 5}
	number, rest, _ := strings.Cut(s, ":")
	if _, err := fmt.Sscan(number, &e.Version); err != nil {
		panic(err)
	}
	voters, old, _ := strings.Cut(rest, "(")
	for _, name := range strings.Fields(voters) {
		e.Voters = append(e.Voters, elector(name))
	}
	for _, name := range strings.Fields(strings.TrimSuffix(old, ")")) {
		e.Old = append(e.Old, elector(name))
	}
	return e
}

// those returns the places of the named voters.
func those(places []vote.Elector, list string) (s Set) {
	for _, name := range strings.Fields(list) {
		s = s.With(slices.Index(places, elector(name)))
	}
	return s
}

func TestAJointElectorateNeedsBothMajorities(t *testing.T) {
	for _, c := range []struct {
		e, some string
		decides bool
		until   vote.Instant // when a is covered until 1, b until 2, and so on
	}{
		{"1: a b c", "a b", true, 1},
		{"1: a b c", "a b c", true, 2},
		{"1: a b c", "c", false, 0},
		// Three new voters are covered until 1, and two old voters until 2.
		{"2: a b c d e (a b c)", "a b c", true, 1},
		{"2: a b c d e (a b c)", "a b c d e", true, 2},
		{"2: a b c d e (a b c)", "a d e", false, 0},
		{"2: a b c d e (a b c)", "b c d", true, 2},
		{"2: c d e (a b c)", "c d e", false, 0},
		{"2: c d e (a b c)", "b c d", true, 2},
		{"2: c d e (a b c)", "a b d e", true, 1},
		{"2: d e f (a b c)", "a b c", false, 0},
		{"2: d e f (a b c)", "b c e f", true, 2},
		{"2: a b (a b c)", "b c", false, 0},
		{"2: a b (a b c)", "a b", true, 1},
		{"2: a (a b)", "a b", true, 1},
		{"0:", "", false, 0},
	} {
		e := version(c.e)
		places := e.All()
		d := NewElectorate(e, places)
		some := those(places, c.some)
		if got := d.Decides(some); got != c.decides {
			t.Errorf("%s: %q decides: %v", c.e, c.some, got)
		}
		if got := d.Until(some, func(i int) vote.Instant { return vote.Instant(places[i].Dir) }); got != c.until {
			t.Errorf("%s: covered by %q until %d, want %d", c.e, c.some, got, c.until)
		}
		if d.Known() != (len(e.Voters) > 0) || d.Size() != len(places) || d.Version() != e.Version {
			t.Errorf("%s: %+v", c.e, d)
		}
	}
}

// slowly computes Decides and Until by their definition: an instant is covered if the voters
// covered at this instant are a majority of each half.
func slowly(e *vote.Electorate, until map[vote.Elector]vote.Instant) (latest vote.Instant) {
	for _, at := range until {
		ok := true
		for _, half := range [][]vote.Elector{e.Voters, e.Old} {
			n := 0
			for _, v := range half {
				if u, in := until[v]; in && u >= at {
					n++
				}
			}
			ok = ok && (len(half) == 0 || 2*n > len(half))
		}
		if ok {
			latest = max(latest, at)
		}
	}
	return latest
}

func TestUntilIsTheLastInstantOfAMajority(t *testing.T) {
	sampled.Computes(t)
	rng := rand.New(rand.NewPCG(1, 2))
	decided := 0
	for range 20_000 {
		e := &vote.Electorate{Version: 1}
		until := map[vote.Elector]vote.Instant{}
		for i := range 10 {
			v := elector(string(rune('a' + i)))
			w := rng.IntN(8)
			if w&1 != 0 {
				e.Voters = append(e.Voters, v)
			}
			if w&2 != 0 {
				e.Old = append(e.Old, v)
			}
			if w&3 != 0 && rng.IntN(4) > 0 {
				until[v] = vote.Instant(1 + rng.IntN(20))
			}
		}
		if len(e.Voters) == 0 {
			continue
		}
		if rng.IntN(3) == 0 {
			e.Old = nil
		}
		places := e.All()
		var some Set
		for i, v := range places {
			if _, ok := until[v]; ok {
				some = some.With(i)
			}
		}
		for v := range until {
			if !e.Has(v) {
				delete(until, v)
			}
		}
		d, want := NewElectorate(e, places), slowly(e, until)
		if got := d.Until(some, func(i int) vote.Instant { return until[places[i]] }); got != want || d.Decides(some) != (want > 0) {
			t.Fatalf("%+v with %v: until %d, want %d; decides: %v", e, until, got, want, d.Decides(some))
		}
		if want > 0 {
			decided++
		}
	}
	if decided < 1000 {
		t.Fatalf("only %d of those decide", decided)
	}
}

func TestASetMovesWithItsVoters(t *testing.T) {
	for _, c := range []struct {
		s    Set
		to   []int
		want Set
	}{
		{0b101, []int{0, 1, 2}, 0b101},
		{0b101, []int{1, 2, 3}, 0b1010},
		{0b101, []int{-1, 0, 1}, 0b10},
		{0b111, []int{2, 0, -1}, 0b101},
		{0b111, nil, 0},
		{0, []int{0, 1}, 0},
		{1 << 62, append(make([]int, 62), 5), 1 << 5},
	} {
		if got := c.s.Moved(c.to); got != c.want {
			t.Errorf("%b by %v: %b, want %b", c.s, c.to, got, c.want)
		}
	}
}
