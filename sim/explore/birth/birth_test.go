package birth

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// Within the claimed bound no two meshes have a majority at the same time, in any order of events.
func TestNoTwoMeshesHaveAMajority(t *testing.T) {
	scopes, wide := Scopes()
	if sampled.Whole && !sampled.Raced { // the race detector takes ten times as long, and shows nothing of one goroutine
		scopes = append(scopes, wide...)
	}
	if testing.Short() { // these scopes take by far the longest
		scopes = slices.DeleteFunc(scopes, func(o Options) bool { return o.Rebirths > 0 || o.Processes > 5 })
	}
	for i, s := range scopes {
		t.Run(fmt.Sprint("scope ", i), func(t *testing.T) {
			t.Parallel()
			if s.Most != s.Bound() {
				t.Fatalf("%+v: the bound is %d", s, s.Bound())
			}
			r, err := Run(s)
			if err != nil {
				t.Fatal(err)
			}
			if r.Violation != nil {
				t.Errorf("%+v: %v", s, r.Violation)
			}
			if r.Births == 0 || s.Rebirths > 0 && r.Undone == 0 || s.Expect == 2 && r.Two == 0 {
				t.Errorf("%+v: it has shown too little: %+v", s, r)
			}
			t.Logf("%+v: %d worlds, %d of them with a birth, %d with two meshes", s, r.Worlds, r.Births, r.Two)
		})
	}
}

// With one process more than the bound, two meshes have a majority.
func TestBeyondTheBoundTwoMeshesHaveAMajority(t *testing.T) {
	sampled.Computes(t)
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

// An event with an error, such as an alarm, ends the search as a violation.
func TestAWrongEventIsAViolation(t *testing.T) {
	x := newExplorer(Options{Expect: 2, Most: 1, Processes: 1})
	const wrong = "a raises an alarm"
	x.heard[hearing{event: event{kind: waitsFor}}] = heardResult{err: wrong}
	r, err := x.search()
	if err != nil {
		t.Fatal(err)
	}
	want := Violation{What: wrong, Path: []string{"a starts", "a has seen the same founders for long"}}
	if r.Violation == nil || !reflect.DeepEqual(*r.Violation, want) {
		t.Errorf("%+v, want %+v", r.Violation, want)
	}
}
