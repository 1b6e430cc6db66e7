package fault

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// An act depends on the seed, its number and the mesh alone: drawing other acts changes neither the
// act nor the mesh.
func TestActsAreDrawnByThemselves(t *testing.T) {
	mix := Mix{Every: time.Second, WallSteps: time.Hour}
	for f := range Kinds {
		mix.Weights[f] = 1
	}
	names := []string{"a", "b", "c", "d", "e", "x1", "x2"}
	mesh := Mesh{Names: slices.Clone(names), Voters: 5, MaxTTL: time.Second}
	const acts = 2000
	var all [acts]Act
	var drawn [Kinds]bool
	for n := range acts {
		all[n] = mix.Draw(7, n, 0, mesh)
		drawn[all[n].Fault] = true
	}
	for n := range acts {
		fresh := Mesh{Names: slices.Clone(names), Voters: 5, MaxTTL: time.Second}
		if again := mix.Draw(7, n, 0, fresh); !reflect.DeepEqual(again, all[n]) {
			t.Fatalf("act %d is %+v, and drawn by itself %+v", n, all[n], again)
		}
	}
	if !slices.Equal(mesh.Names, names) {
		t.Errorf("the mesh's names are %v now", mesh.Names)
	}
	for f := range Kinds {
		if !drawn[f] {
			t.Errorf("%v is never drawn", f)
		}
	}
}

// A generator belongs to a single concern: the same arguments give the same generator, and other
// arguments another generator.
func TestEachConcernHasAGenerator(t *testing.T) {
	draw := func(seed uint64, concern string, about ...any) uint64 {
		return Chance(seed, concern, about...).Uint64()
	}
	first := draw(1, "fault", 2)
	if draw(1, "fault", 2) != first {
		t.Error("it differs from itself")
	}
	for name, other := range map[string]uint64{
		"seed": draw(2, "fault", 2), "concern": draw(1, "host", 2), "about": draw(1, "fault", 3), "about nothing": draw(1, "fault"),
	} {
		if other == first {
			t.Errorf("another %s gives the same", name)
		}
	}
}
