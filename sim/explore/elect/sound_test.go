package elect

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/sim/explore/internal/deep"
)

// TestLookingUpIsLivingThrough takes random walks in explored worlds, and has real machines make
// the same steps: the explorer's states must match the machines. A mismatch shows that the encoder
// leaves out a field that matters.
func TestLookingUpIsLivingThrough(t *testing.T) {
	sampled.Computes(t)
	for name, o := range map[string]Options{
		"three become two":  {Propose: []string{"a:ab", "b:ac", "a:ac"}, Crashes: 2, Failures: 1, Cuts: 1, Idles: 1},
		"three become four": {Propose: []string{"a:abcd", "b:ab"}, Crashes: 2, Failures: 1, Cuts: 1, Idles: 2},
		"two drains":        {Propose: []string{"a:ab", "c:abcd"}, Crashes: 2, Idles: 1, Drains: 2, Attempts: 20},
		"both ends":         {Propose: []string{"a:ad"}, Begun: true, Crashes: 1, Cuts: 1, Idles: 1, Waits: 1, Drains: 1, Descend: true, Attempts: 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, err := newExplorer(o)
			if err != nil {
				t.Fatal(err)
			}
			first, wrong := x.begin()
			if wrong != "" {
				t.Fatal(wrong)
			}
			walks, decided, back := 30, 0, 0
			if o.Begun {
				walks = 100 // fewer walks miss an encoder without electorate.Machine.raceAt
			}
			if sampled.Raced {
				walks = 10
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range walks {
				w := first
				x.living = make([]*host, x.nodes)
				for i := range x.nodes {
					x.living[i] = deep.Copy(x.locals[w.nodes[i].local].host)
				}
				for range 300 {
					todo := x.steps(&w, nil)
					if len(todo) == 0 || x.over(&w) {
						break
					}
					s := todo[rng.IntN(len(todo))]
					if (s.what == stepCrash || s.what == stepFails || s.what == stepIdle || s.what == stepCut) && rng.IntN(20) > 0 {
						continue // or else all of these steps would come at once
					}
					if wrong := x.apply(&w, s); wrong == impossible {
						break
					} else if wrong != "" {
						t.Fatal(wrong)
					}
					x.tidy(&w)
					var back world
					if x.unpack(x.pack(&w, nil), &back); !o.lossy {
						for i := range back.nodes {
							back.nodes[i].before = w.nodes[i].before // isn't packed
						}
					}
					if back != w {
						t.Fatalf("%+v was packed, and came back as %+v", w, back)
					}
				}
				if w.decided[jointVersion] != 0 {
					decided++
				}
				if v := w.decided[finalVersion]; v != 0 && len(x.values[v].Voters) == founders && o.Begun {
					back++
				}
			}
			t.Logf("%d of %d walks came to a joint electorate, and %d back", decided, walks, back)
			if (decided == 0 || o.Begun && back == 0) && !sampled.Raced {
				t.Error("no walk came to a joint electorate, or back from it")
			}
		})
	}
}

// TestRulesNameFields demands a field for each rule, so that no rule is left behind when a field is
// renamed.
func TestRulesNameFields(t *testing.T) {
	fields, met := make(map[string]bool), make(map[reflect.Type]bool)
	var visit func(reflect.Type)
	visit = func(v reflect.Type) {
		if met[v] {
			return
		}
		met[v] = true
		switch v.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			visit(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				fields[v.String()+"."+v.Field(i).Name] = true
				visit(v.Field(i).Type)
			}
		}
	}
	visit(reflect.TypeFor[electorate.Machine]())
	for name := range rules {
		if !fields[name] {
			t.Errorf("there is a rule for %s, which is no field", name)
		}
	}
}
