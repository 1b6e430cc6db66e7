package explore

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/internal/broken"
)

// ahead is the error of some wall clocks: far more than S.
const ahead = 10 * Tick

// mutants are nodes that break one rule each, in limits in which the fault is found. The limits are
// as narrow as possible, since the genuine node must exhaust the limits; the search chooses the
// steps.
var mutants = []struct {
	name  string
	build Builder
	o     Options
	// hint has the next steps in the short version of the test. With LOCKMESH_EXPLORE_LONG the
	// search finds these steps, too.
	hint []string
}{
	{"no quiet time", shared(broken.Hasty), Options{Locks: []int{1, 1}, Breaks: 2, Crashes: 1, Prompt: true, Crash: []string{"c"}}, []string{"break a b, a knows"}},
	{"quiet votes that count", shared(broken.QuietCounts), Options{
		Locks: []int{1, 1}, Ticks: 4, Breaks: 2, Crashes: 1, Late: 1, Prompt: true, Keep: true, Break: []string{"a-b", "a-c"}, Crash: []string{"c"},
		// Without these steps the mutant is found as well, but exhausting the control takes many
		// minutes.
		Begin: []string{"lock a k", "lock b k", "break a c, a knows"},
	}, []string{"tick", "break a b, a knows"}},
	{"votes kept across a voter's incarnations", shared(broken.KeepsVotes), Options{
		SeparateClients: true, Locks: []int{1, 1}, Ticks: 4, Breaks: 4, Crashes: 1, Prompt: true, Keep: true, Crash: []string{"b"}, Begin: acrossCuts,
	}, []string{"lock y k", "tick", "lock x k"}},
	{"an acknowledgement covers votes of another generation", shared(broken.CoversGenerations), Options{
		SeparateClients: true, Locks: []int{1, 1}, Ticks: 4, Breaks: 5, Prompt: true, Keep: true, Crash: []string{}, Begin: acrossCuts,
	}, []string{"lock x k", "break x b, x knows", "lock y k"}},
	{"an answer that only adds", shared(broken.OnlyAdds), Options{
		SeparateClients: true, Locks: []int{1, 1}, Ticks: 4, Breaks: 5, Prompt: true, Keep: true, Crash: []string{}, Begin: acrossCuts,
	}, []string{"lock x k", "break x b, x knows", "lock y k"}},
	{"session validity by any majority", shared(broken.AnyMajority), Options{
		SeparateClients: true, Locks: []int{1, 1}, Ticks: 5, Breaks: 2, Crashes: 1, Prompt: true, Keep: true, Break: []string{"x-b", "x-c"}, Crash: []string{"c"},
		Begin: []string{"break x c, x knows"},
	}, []string{"lock x k", "lock y k"}},
	{"a lost lease comes back", shared(broken.Resurrects), Options{
		Locks: []int{1, 1}, Ticks: 4, Breaks: 2, Prompt: true, Keep: true, Break: []string{"a-b", "a-c"},
	}, []string{"lock a k"}},
	{"no confirmation of tokens", shared(broken.ConfirmsNothing), Options{
		SeparateClients: true, Locks: []int{1, 1}, Ticks: 3, Breaks: 3, Late: 1, Prompt: true, Keep: true, Break: []string{"x-a", "x-c", "y-b"}, Crash: []string{},
		Wall: map[string]time.Duration{"x": ahead, "b": ahead}, Begin: []string{"break x a, x knows", "break y b, y knows"},
	}, []string{"lock x k", "late x > c  [confirm #1 serial 1 token 1700000015000000]", "break x c, x knows"}},
	{"late serials honoured", shared(broken.HonoursLate), Options{
		SeparateClients: true, Locks: []int{1, 1}, Ticks: 1, Breaks: 2, Late: 1, Prompt: true, Keep: true, Break: []string{"x-c", "y-a"}, Crash: []string{},
		Wall: map[string]time.Duration{"x": ahead, "a": ahead}, Begin: []string{"break x c, x knows", "break y a, y knows"},
	}, []string{"lock x k", "late x > b  [confirm #1 serial 1 token 1700000015000000]"}},
	{"restarted voters that don't ask for the highest token", shared(broken.AsksNoVoter), Options{
		Locks: []int{1, 1}, Ticks: 5, Breaks: 2, Crashes: 1, Prompt: true, Break: []string{"a-b", "b-a"}, Crash: []string{"c"},
		Wall: map[string]time.Duration{"a": ahead}, Begin: []string{"break a b, a knows", "break b a, b knows"},
	}, []string{"lock a k", "release a k"}},
	{"highest token asked for at the start of the quiet time", newEarly, Options{
		SeparateClients: true, Locks: []int{1, 1}, Ticks: 3, Breaks: 2, Crashes: 1, Late: 2, Prompt: true, Keep: true, Break: []string{"x-c", "y-b"}, Crash: []string{"a"},
		Wall:  map[string]time.Duration{"x": ahead, "a": ahead},
		Begin: []string{"break x c, x knows", "break y b, y knows", "lock x k", "late x > b  [confirm #1 serial 1 token 1700000015000000]", "crash a"},
	}, []string{"lock y k", "start a", "link-late x a"}},
	{"yield before uncounting", shared(broken.YieldsFirst), Options{Locks: []int{1, 1}}, nil},
	{"a proposal timeout that revokes without the owner's word", shared(broken.Revokes), Options{Locks: []int{1, 1}}, nil},
	{"hearsay of a death ends a session", shared(broken.FreesUnlinked), Options{Locks: []int{1, 1}, Ticks: 1, Breaks: 2, Prompt: true, Keep: true, Break: []string{"a-b", "a-c"}}, nil},
	{"a voter that ignores modes", modeless, Options{
		SeparateClients: true, Locks: []int{1, 1, 1}, Modes: readers, Prompt: true, Served: true,
	}, nil},
	{"a voter that counts permits without slots", slotless, Options{
		SeparateClients: true, Locks: []int{1, 1, 1}, Modes: permits, Permits: 2, Prompt: true, Breaks: 1, Served: true,
	}, nil},
	{"votes for different slots that count together", shared(broken.CountsAnySlot), Options{
		SeparateClients: true, Locks: []int{1, 1, 1}, Modes: permits, Permits: 2, Breaks: 3, Prompt: true, Served: true,
		Break: []string{"x-c", "y-b", "z-a"}, Begin: []string{"break x c, x knows", "break y b, y knows", "break z a, z knows"},
	}, nil},
	{"an upgrade that doesn't wait for others", impatient, Options{
		SeparateClients: true, Locks: []int{2, 1}, Modes: readers[:2], Upgrade: true, Ticks: 1, Prompt: true, Served: true,
	}, nil},
	{"upgrades that all wait", polite, Options{
		SeparateClients: true, Locks: []int{2, 2}, Modes: readers[:2], Upgrade: true, Prompt: true, Served: true,
	}, nil},
	{"a downgrade without the owner's word", shared(broken.SharesWanted), Options{
		SeparateClients: true, Locks: []int{1, 1}, Modes: []vote.Mode{vote.Exclusive, vote.Shared}, Downgrade: true, Prompt: true, Served: true,
	}, nil},
	{"one token for two readers", shared(broken.TakesAnyToken), Options{
		SeparateClients: true, Locks: []int{1, 1}, Modes: readers[:2], Breaks: 2, Late: 2, Prompt: true, Break: []string{"x-c", "y-c"},
		Begin: []string{"break x c, x knows", "break y c, y knows"},
	}, nil},
	{"session validity by any majority, of readers", shared(broken.AnyMajority), Options{
		SeparateClients: true, Locks: []int{1, 1}, Modes: readers[:2], Ticks: 3, Breaks: 2, Crashes: 1, Prompt: true, Keep: true, Validity: true, Break: []string{"x-b", "x-c"},
		Crash: []string{"c"}, Begin: []string{"break x c, x knows"},
	}, []string{"lock x k"}},
	{"release without owner check", shared(broken.ReleasesAny), Options{SeparateClients: true, Locks: []int{1, 2}, Prompt: true, Abandon: true}, nil},
}

var (
	readers = []vote.Mode{vote.Shared, vote.Shared, vote.Exclusive}
	permits = []vote.Mode{vote.Permit, vote.Permit, vote.Permit}
)

// acrossCuts leaves x connected to b only, and y to c only.
var acrossCuts = []string{"break y a, y knows", "break y b, y knows", "break x a, x knows", "break x c, x knows"}

// shared makes a builder of the explorer of a builder that package sim uses as well.
func shared(build broken.Builder) Builder {
	return func(cfg node.Config, now vote.Now) (Machine, error) { return build(cfg, now) }
}

// TestMutantsAreFound demands that each mutant is found by an effect visible to users, two holders
// or tokens out of order, in limits that the genuine node exhausts without a fault.
func TestMutantsAreFound(t *testing.T) {
	sampled.Computes(t)
	for i, m := range mutants {
		if !sampled.Case(i, 3) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			o := m.o
			if os.Getenv("LOCKMESH_EXPLORE_LONG") == "" {
				o.Begin = slices.Concat(o.Begin, m.hint)
			}
			if sampled.Raced {
				o.MaxStates = 300
			}
			control := run(t, o)
			if control.Violation != nil || !control.Exhausted && !sampled.Raced {
				t.Errorf("without the mutant: %v\n%v", control, control.Violation)
			}
			o.Build = m.build
			found := run(t, o)
			t.Logf("%s: found at depth %d, in %d states; without it exhausted, %d states", m.name, found.Depth+1, found.States, control.States)
			if found.Violation == nil && sampled.Raced {
				return
			}
			if found.Violation == nil {
				t.Fatalf("not found: %v", found)
			}
			t.Logf("after %q: %v", o.Begin, found.Violation)
			if v, err := Replay(o, found.Violation.Steps); err != nil || v == nil || v.What != found.Violation.What {
				t.Errorf("its steps again: %v, %v", v, err)
			}
			o.Build = nil
			if v, _ := Replay(o, found.Violation.Steps); v != nil {
				t.Errorf("its steps violate %v without the mutant", v)
			}
		})
	}
}

func run(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
