package explore

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestGenuineNodesAreFine exhausts a small space of each kind.
func TestGenuineNodesAreFine(t *testing.T) {
	sampled.Computes(t)
	genuine := map[string]Options{
		"every order":   {Locks: []int{1, 1}, Ticks: 1, Begin: []string{"lock a k"}},
		"prompt":        {Locks: []int{1, 1}, Ticks: 4, Crashes: 1, Prompt: true, Crash: []string{"b"}},
		"late":          {Locks: []int{1, 1}, Ticks: 2, Late: 1, Prompt: true},
		"first start":   {Locks: []int{1, 1}, Ticks: 4, Prompt: true, Cold: true},
		"five voters":   {Voters: 5, Locks: []int{1, 1}, Ticks: 2, Breaks: 1, Prompt: true, Break: []string{"a-b", "a-c"}},
		"two keys":      {Keys: 2, Locks: []int{2, 1}, Ticks: 1, Prompt: true},
		"five, two":     {Voters: 5, Keys: 2, Locks: []int{1, 1}, Ticks: 1, Prompt: true},
		"clients apart": {SeparateClients: true, Locks: []int{1, 1}, Ticks: 4, Breaks: 1, Prompt: true, Break: []string{"x-a", "y-a"}},
	}
	for i, name := range slices.Sorted(maps.Keys(genuine)) {
		o := genuine[name]
		if !sampled.Case(i, 2) {
			continue
		}
		if sampled.Raced && !slices.Contains([]string{"first start", "two keys", "five, two"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, o)
			t.Log(r)
			if r.Violation != nil {
				t.Fatal(r.Violation)
			}
			if !r.Exhausted || r.Grants == 0 || !strings.Contains(r.String(), " exhausted") {
				t.Error("not exhausted, or nothing was granted")
			}
		})
	}
}

// TestAUsersTwoKeysAreHeldAtOnce shows that locks of different keys are independent.
func TestAUsersTwoKeysAreHeldAtOnce(t *testing.T) {
	x, s := beginning(t, Options{Keys: 2, Locks: []int{2, 2}, Prompt: true, Keep: true})
	s, v, err := x.replay(s, []string{"lock a k", "lock b l", "lock b k", "lock a l"})
	if v != nil || err != nil {
		t.Fatal(v, err)
	}
	for c, want := range [][maxKeys]userState{{holding, waiting}, {waiting, holding}} {
		for k := range maxKeys {
			if u := x.locals.all[s.nodes[c]].users[k]; u.state != want[k] {
				t.Errorf("client %d and key %d are in state %d, not %d", c, k, u.state, want[k])
			}
		}
	}
}

func beginning(t *testing.T, o Options) (*explorer, state) {
	t.Helper()
	x, err := newExplorer(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := x.begin()
	if err != nil {
		t.Fatal(err)
	}
	return x, s
}

func TestARunCanBeStopped(t *testing.T) {
	o := Options{Locks: []int{1, 1}, MaxStates: 500}
	if r := run(t, o); r.Exhausted || r.States < 500 || r.States > 1000 {
		t.Errorf("with a limit of 500 states: %v", r)
	}
	o.MaxStates = 0
	o.Stop = func(p Progress) bool { return p.Depth == 7 && p.States > 0 && p.Waiting > 0 }
	if r := run(t, o); r.Exhausted || r.Depth != 7 || !strings.Contains(r.String(), "not exhausted") {
		t.Errorf("stopped at depth 7: %v", r)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for _, row := range []struct {
		o    Options
		want string
	}{
		{Options{Voters: 1}, "1 voters"},
		{Options{Voters: 6}, "6 voters"},
		{Options{Keys: 3}, "3 keys"},
		{Options{Ticks: -1}, "negative"},
		{Options{Late: 300}, "above 200"},
		{Options{Begin: []string{"lock a k"}}, "0 of 1 steps"},
		{Options{Crash: []string{"z"}}, "no node is called z"},
		{Options{Break: []string{"a-z"}}, "no connection is called a-z"},
	} {
		if _, err := Run(row.o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want something with %q", row.o, err, row.want)
		}
	}
}

func TestPackedStatesComeBack(t *testing.T) {
	x, first := beginning(t, Options{Keys: 2, SeparateClients: true, Locks: []int{2, 2}, Ticks: 5, Breaks: 3, Crashes: 2, Late: 4})
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		s := first
		for range 100 {
			todo := x.steps(&s, nil)
			if len(todo) == 0 {
				break
			}
			x.apply(&s, todo[rng.IntN(len(todo))])
			p := packer{}
			p.state(&s, x)
			var back state
			(&packer{buf: slices.Clone(p.buf), reading: true}).state(&back, x)
			if back != s {
				t.Fatalf("%+v came back as %+v", s, back)
			}
			if x.hash(&back) != x.hash(&s) {
				t.Fatal("it came back with another hash")
			}
		}
	}
}

func TestSeenRemembersEveryHash(t *testing.T) {
	var s seen
	rng := rand.New(rand.NewPCG(1, 1))
	all := make([]uint64, 100_000)
	for i := range all {
		all[i] = rng.Uint64() &^ 0xff // all hashes fall into few places
		if !s.add(all[i]) {
			t.Fatalf("%x isn't new", all[i])
		}
	}
	for _, h := range all {
		if s.add(h) {
			t.Fatalf("%x was forgotten", h)
		}
	}
	if !s.add(0) || s.add(0) || s.n != len(all)+1 {
		t.Error("zero is counted wrongly")
	}
}

// sharing has small spaces in which clients share keys, or in which votes have times of their own.
var sharing = map[string]Options{
	"lengths":              {Locks: []int{1, 1}, Length: 2 * Tick, Ticks: 2, Breaks: 1, Prompt: true, Break: []string{"a-b", "b-c"}},
	"delays":               {Locks: []int{1, 1}, Delay: Tick, MinHold: Tick, Ticks: 2, Crashes: 1, Prompt: true, Crash: []string{"a"}},
	"readers and a writer": {Locks: []int{1, 1, 1}, Modes: readers, Ticks: 1, Prompt: true},
	"readers, every order": {Locks: []int{1, 1}, Modes: readers[:2], Begin: []string{"lock a k"}},
	"two permits":          {Locks: []int{1, 1, 1}, Modes: permits, Permits: 2, Ticks: 1, Prompt: true},
	"two permits, cut":     {Locks: []int{1, 1, 1}, Modes: permits, Permits: 2, Breaks: 1, Prompt: true, Break: []string{"a-b", "c-b"}},
	"one permit":           {Locks: []int{1, 1, 1}, Modes: permits, Permits: 1, Ticks: 1, Prompt: true},
	"an upgrade":           {Locks: []int{2, 1}, Modes: readers[:2], Upgrade: true, Ticks: 1, Prompt: true},
	"two upgrades":         {Locks: []int{2, 2}, Modes: readers[:2], Upgrade: true, Ticks: 1, Prompt: true},
	"a downgrade":          {Locks: []int{1, 1}, Modes: readers[1:], Downgrade: true, Ticks: 1, Late: 1, Prompt: true, SeparateClients: true},
}

// TestSharedKeys exhausts these spaces, checks the voters behind each lease, and demands that every
// request is served.
func TestSharedKeys(t *testing.T) {
	sampled.Computes(t)
	for i, name := range slices.Sorted(maps.Keys(sharing)) {
		o := sharing[name]
		if sampled.Raced && name != "two permits" {
			continue
		}
		if !sampled.Case(i, 2) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Validity, o.Served = true, true
			r := run(t, o)
			t.Log(r)
			if r.Violation != nil {
				t.Fatal(r.Violation)
			}
			if !r.Exhausted || r.Grants == 0 || (r.Failures > 0) != (name == "two upgrades") {
				t.Error("not exhausted, or nothing was granted, or an upgrade failed without another, or none did with another")
			}
		})
	}
}
