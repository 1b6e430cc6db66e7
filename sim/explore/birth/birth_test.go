package birth

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// Within the bound of the claim no two meshes have a majority at a time, in any order of events.
func TestNoTwoMeshesHaveAMajority(t *testing.T) {
	apart := [][2]int{{0, 3}, {0, 4}, {1, 3}, {1, 4}}
	scopes := []struct {
		Options
		wide bool // for the hunt
	}{
		{Options{Expect: 2, Most: 3, Processes: 4}, false},
		{Options{Expect: 2, Most: 3, Processes: 4, Changes: 1}, false},
		{Options{Expect: 2, Most: 3, Processes: 4, Rebirths: 1}, false},
		{Options{Expect: 3, Most: 4, Processes: 5, Apart: apart}, false},
		// The first mesh votes d in, which hears of that only after its pledge to e and f. If d then
		// joined as the one that has pledged, it would be counted in both.
		{Options{Expect: 3, Most: 4, Processes: 6, Changes: 1, Apart: [][2]int{{0, 4}, {0, 5}, {1, 3}, {1, 4}, {1, 5}, {2, 3}, {2, 4}, {2, 5}}}, false},
		{Options{Expect: 2, Most: 3, Processes: 5}, true},
		{Options{Expect: 3, Most: 4, Processes: 4}, true},
	}
	for _, s := range scopes {
		if s.wide && sampled.Count(0, 1) == 0 {
			continue
		}
		if s.Most != s.Bound() {
			t.Fatalf("%+v: the bound is %d", s.Options, s.Bound())
		}
		r, err := Run(s.Options)
		if err != nil {
			t.Fatal(err)
		}
		if r.Violation != nil {
			t.Errorf("%+v: %v", s.Options, r.Violation)
		}
		if r.Births == 0 || s.Rebirths > 0 && r.Undone == 0 || s.Expect == 2 && r.Two == 0 {
			t.Errorf("%+v: it has shown too little: %+v", s.Options, r)
		}
		t.Logf("%+v: %d worlds, %d of them with a birth, %d with two meshes", s.Options, r.Worlds, r.Births, r.Two)
	}
}

// With one process more than the bound, two meshes have a majority.
func TestBeyondTheBoundTwoMeshesHaveAMajority(t *testing.T) {
	for _, o := range []Options{
		{Expect: 2, Most: 4, Processes: 4, Crowded: true, Apart: [][2]int{{0, 2}, {0, 3}, {1, 2}, {1, 3}}},
		{Expect: 3, Most: 5, Processes: 6, Crowded: true, Apart: [][2]int{{0, 3}, {0, 4}, {0, 5}, {1, 3}, {1, 4}, {1, 5}, {2, 3}, {2, 4}, {2, 5}}},
	} {
		if o.Most != o.Bound()+1 {
			t.Fatalf("%+v: the bound is %d", o, o.Bound())
		}
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Violation == nil || !strings.HasPrefix(r.Violation.What, "two meshes") {
			t.Errorf("%+v: %v", o, r.Violation)
		}
	}
}
