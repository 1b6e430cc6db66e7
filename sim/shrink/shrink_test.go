package shrink

import (
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/sim"
	"github.com/lockmesh/lockmesh/sim/fault"
	"github.com/lockmesh/lockmesh/sim/timeline"
)

// TestDdmin shrinks lists that fail if they hold certain items.
func TestDdmin(t *testing.T) {
	all := make([]int, 100)
	for i := range all {
		all[i] = i
	}
	for _, want := range [][]int{{}, {0}, {99}, {3, 4}, {0, 50, 99}, {1, 20, 33, 34, 71, 98}, {7, 8, 9, 10, 11, 12, 13, 14}} {
		runs := 0
		got := ddmin(all, func(items []int) ([]int, bool) {
			runs++
			return items, !slices.ContainsFunc(want, func(i int) bool { return !slices.Contains(items, i) })
		})
		if !slices.Equal(got, want) || runs > 400 {
			t.Errorf("%v is left of 100 after %d runs, want %v", got, runs, want)
		}
	}
	if got := ddmin(all, func([]int) ([]int, bool) { return nil, false }); len(got) != len(all) {
		t.Errorf("%d are left of 100 that never fail", len(got))
	}
}

// TestLiterals compares literals with Go source.
func TestLiterals(t *testing.T) {
	for _, row := range []struct {
		v    any
		want string
	}{
		{sim.Act{At: time.Second, Hosts: []string{"a", `"`}, PPM: -3, OneWay: true}, "fault.Act{\nAt: time.Second,\nFault: fault.Crash,\nHosts: []string{\"a\", \"\\\"\", },\nOneWay: true,\nPPM: -3,\n}"},
		{sim.Options{Seed: 1 << 60, Build: sim.Genuine, Trace: io.Discard, Picture: &timeline.Recording{}, Acts: []sim.Act{}}, "sim.Options{\nSeed: 0x1000000000000000,\n}"},
		{[]sim.Act{{Fault: fault.Wall, By: -time.Hour}}, "[]fault.Act{\n{Fault: fault.Wall,By: -time.Hour,}, \n}"},
		{[]time.Duration{0, 90 * time.Second, 1500 * time.Microsecond, 7, -7 * time.Millisecond}, "[]time.Duration{0, 90 * time.Second, 1500 * time.Microsecond, 7 * time.Nanosecond, -7 * time.Millisecond, }"},
	} {
		if got := literal(row.v); got != row.want {
			t.Errorf("%+v is written\n%s\nwant\n%s", row.v, got, row.want)
		}
	}
}

// TestAnActSaysAllInItsLiteral finds a field that a literal leaves out, for example of a new kind.
func TestAnActSaysAllInItsLiteral(t *testing.T) {
	var a sim.Act
	for v, i := reflect.ValueOf(&a).Elem(), 0; i < v.NumField(); i++ {
		switch f := v.Field(i); f.Kind() {
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			f.SetUint(1)
		default:
			f.SetInt(1)
		}
	}
	text := literal(a)
	for i := range reflect.TypeFor[sim.Act]().NumField() {
		if name := reflect.TypeFor[sim.Act]().Field(i).Name; !strings.Contains(text, "\n"+name+": ") {
			t.Errorf("%s is missing in %s", name, text)
		}
	}
}

func TestADynamicWorldIsNotShrunk(t *testing.T) {
	if _, err := Run(t.Context(), sim.DrawDynamic(1), time.Second, Settings{}); !errors.Is(err, errDynamic) {
		t.Errorf("it says %v", err)
	}
}
