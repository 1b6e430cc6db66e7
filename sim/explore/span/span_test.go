package span

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestOneChange exhausts small spaces: no two nodes hold the key at the same time.
func TestOneChange(t *testing.T) {
	sampled.Computes(t)
	for _, o := range Spaces()[:3] {
		t.Run(fmt.Sprintf("%s %s %v", o.From, o.To, o.Back), func(t *testing.T) {
			t.Parallel()
			if sampled.Raced {
				o.MaxStates = 3000
			}
			r := run(t, o)
			t.Log(r)
			if r.Violation != nil {
				t.Fatal(r.Violation)
			}
			if !sampled.Raced && (!r.Exhausted || r.Held[first] == 0 || r.Held[joint] == 0 || r.Held[final] == 0) {
				t.Error("not exhausted, or nobody held under some version")
			}
		})
	}
}

// TestMutantsAreFound breaks one rule at a time. If three voters become four, or two, any majority
// of the old voters shares a voter with any majority of the new voters, and each voter has a single
// vote: this hides most mutants. A single voter that becomes three shows the mutants.
func TestMutantsAreFound(t *testing.T) {
	for _, o := range []Options{
		{mutant: noJoint}, {mutant: noDrain}, {mutant: newHalf}, {mutant: anyVersion}, {mutant: forgets, Crashes: 1}, {mutant: noQuiet, Crashes: 1},
	} {
		t.Run(o.mutant, func(t *testing.T) {
			t.Parallel()
			o.From, o.To = "a", "abc"
			if sampled.Raced {
				o.MaxStates = 3000
			}
			r := run(t, o)
			t.Logf("depth %d, %d states: %v", r.Depth+1, r.States, r.Violation)
			if r.Violation == nil && !sampled.Raced {
				t.Error("not found")
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

func TestLimitsAreChecked(t *testing.T) {
	for _, row := range []struct {
		o    Options
		want string
	}{
		{Options{From: "abc"}, "before and after"},
		{Options{From: "abc", To: "ba"}, "in order"},
		{Options{From: "abc", To: "abf"}, "a to e"},
		{Options{From: "abc", To: "e"}, "left out"},
		{Options{From: "abc", To: "ab", Crashes: -1}, "-1 crashes"},
	} {
		if _, err := Run(row.o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want something with %q", row.o, err, row.want)
		}
	}
	if r := run(t, Options{From: "a", To: "abc", MaxStates: 100}); r.Exhausted || r.States < 100 || !strings.Contains(r.String(), "not exhausted") {
		t.Errorf("with a limit of 100 states: %v", r)
	}
}
