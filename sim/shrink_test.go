package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutated are the options of a seed in which all nodes are a mutant.
func mutated(t *testing.T, name string, seed uint64) Options {
	t.Helper()
	i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
	if i < 0 {
		t.Fatalf("no mutant is called %q", name)
	}
	o := Draw(seed)
	o.Build = mutants[i].build
	return o
}

// shrunk is what shrinking leaves of the first default seed that finds a mutant.
func shrunk(t *testing.T, name string) *Shrunk {
	t.Helper()
	for seed := uint64(1); seed <= 10; seed++ {
		s, err := Shrink(t.Context(), mutated(t, name, seed), mutantLength, Shrinking{})
		if err == nil {
			return s
		}
		if !errors.Is(err, errHolds) {
			t.Fatal(err)
		}
	}
	t.Fatalf("no seed finds %q", name)
	return nil
}

// play runs what is left, as the test that is written does.
func (s *Shrunk) play(b Builder) error {
	o := s.Options
	o.Build = b
	w := New(o)
	w.Run(s.Length)
	return w.Settle()
}

// TestAFailureShrinks demands as much as shrinking gave for each of up to ten seeds of these mutants.
func TestAFailureShrinks(t *testing.T) {
	for _, row := range []struct {
		mutant string
		most   Size
	}{
		{"no quiet time", Size{Acts: 1, Nodes: 3, Requests: 0}},
		{"votes kept across a voter's lives", Size{Acts: 1, Nodes: 3, Requests: 2}},
		{"majority of the peers that look alive", Size{Acts: 4, Nodes: 4, Requests: 1}},
		{"a lost lease comes back", Size{Acts: 4, Nodes: 4, Requests: 2}},
		{"hearsay of a death ends a session", Size{Acts: 2, Nodes: 4, Requests: 3}},
		{"yield before uncounting", Size{Acts: 2, Nodes: 5, Requests: 6}},
	} {
		t.Run(row.mutant, func(t *testing.T) {
			t.Parallel()
			s := shrunk(t, row.mutant)
			t.Logf("%d runs: %+v to %+v", s.Runs, s.Before, s.After)
			a, most := s.After, row.most
			if a.Acts > most.Acts || a.Nodes > most.Nodes || a.Requests > most.Requests || s.Early {
				t.Errorf("%+v shrinks to %+v in %d runs, want %+v at most", s.Before, a, s.Runs, most)
			}
			err := s.play(s.Options.Build)
			var v *Violation
			if !errors.As(err, &v) || v.Check != s.check || *v != *s.Violation {
				t.Errorf("the shrunk run says %v, and Shrink %v; it was about %s", err, s.Violation, s.check)
			}
			if err := s.play(nil); err != nil {
				t.Errorf("without the mutant: %v", err)
			}
		})
	}
}

// TestAFailureAfterTheFaultsShrinks has somebody wait for ever. It takes many long runs, so there's a limit.
func TestAFailureAfterTheFaultsShrinks(t *testing.T) {
	t.Parallel()
	const most = 60
	s, err := Shrink(t.Context(), mutated(t, "the voter's life ignored", 83), 25*time.Second, Shrinking{Runs: most})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Early || s.Runs > most || s.Violation.Check != checkLiveness || s.Length > 20*time.Second || s.After.Acts >= s.Before.Acts/2 {
		t.Errorf("%d runs of %v leave %+v of %+v and %v", s.Runs, s.Length, s.After, s.Before, s.Violation)
	}
	if err := s.play(s.Options.Build); err == nil || err.Error() != s.Violation.Error() {
		t.Errorf("what is left fails with %v, and Shrink says %v", err, s.Violation)
	}
}

func TestShrinkingIsDeterministic(t *testing.T) {
	t.Parallel()
	var files [2]string
	var runs [2]int
	for i := range files {
		s := shrunk(t, "hearsay of a death ends a session")
		var b strings.Builder
		if err := errors.Join(s.WriteTest(&b), s.WritePicture(&b)); err != nil {
			t.Fatal(err)
		}
		files[i], runs[i] = b.String(), s.Runs
	}
	if files[0] != files[1] || runs[0] != runs[1] {
		t.Errorf("after %d runs there is\n%s\nand after %d\n%s", runs[0], files[0], runs[1], files[1])
	}
}

func TestWhatHoldsCannotBeShrunk(t *testing.T) {
	if _, err := Shrink(t.Context(), Draw(1), time.Second, Shrinking{}); !errors.Is(err, errHolds) {
		t.Errorf("shrinking a good run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Shrink(ctx, mutated(t, "no quiet time", 1), time.Second, Shrinking{}); !errors.Is(err, context.Canceled) {
		t.Errorf("shrinking when it is too late: %v", err)
	}
}

// TestAnEndLeavesTheSmallestSoFar ends the context when something has been found.
func TestAnEndLeavesTheSmallestSoFar(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Shrink(ctx, mutated(t, "hearsay of a death ends a session", 1), mutantLength, Shrinking{Progress: func(_ int, size Size) {
		if size.Requests < 10 {
			cancel()
		}
	}})
	if err != nil || !s.Early {
		t.Fatalf("it wasn't ended early: %v", err)
	}
	if err := s.play(s.Options.Build); err == nil || s.After.Requests >= 10 {
		t.Errorf("%+v is left of %+v, and it says %v", s.After, s.Before, err)
	}
}

// TestTheWrittenTestIsGo has the compiler look at it, where it is meant to be.
func TestTheWrittenTestIsGo(t *testing.T) {
	t.Parallel()
	s := shrunk(t, "majority of the peers that look alive")
	var b bytes.Buffer
	if err := s.WriteTest(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"func TestShrunkSeed", "//\tcover violated", "sim.Ask{", "sim.FaultCrash", "w.Run(", "w.Settle()"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, b.String())
		}
	}
	here, err := filepath.Abs("written_shrunk_test.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {here: filepath.Join(dir, "shrunk_test.go")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "shrunk_test.go"), b.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, "overlay"), overlay, 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "vet", "-overlay", filepath.Join(dir, "overlay"), ".").CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s\n%s", err, out, b.String())
	}
}

func TestTheShrunkPictureShowsTheViolation(t *testing.T) {
	var b bytes.Buffer
	if err := shrunk(t, "a lost lease comes back").WritePicture(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b.Bytes(), []byte("VIOLATION")) {
		t.Error("it doesn't show it")
	}
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDdmin looks for lists that fail when they hold certain items.
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

// TestLiterals reads the literals as a reader of Go would.
func TestLiterals(t *testing.T) {
	for _, row := range []struct {
		v    any
		want string
	}{
		{Act{At: time.Second, Hosts: []string{"a", `"`}, PPM: -3, OneWay: true}, "sim.Act{\nAt: time.Second,\nFault: sim.FaultCrash,\nHosts: []string{\"a\", \"\\\"\", },\nOneWay: true,\nPPM: -3,\n}"},
		{Options{Seed: 1 << 60, Build: Genuine, Trace: io.Discard, Picture: &Picture{}, Acts: []Act{}}, "sim.Options{\nSeed: 0x1000000000000000,\n}"},
		{[]Act{{Fault: FaultWall, By: -time.Hour}}, "[]sim.Act{\n{Fault: sim.FaultWall,By: -time.Hour,}, \n}"},
		{[]time.Duration{0, 90 * time.Second, 1500 * time.Microsecond, 7, -7 * time.Millisecond}, "[]time.Duration{0, 90 * time.Second, 1500 * time.Microsecond, 7 * time.Nanosecond, -7 * time.Millisecond, }"},
	} {
		if got := literal(row.v); got != row.want {
			t.Errorf("%+v is written\n%s\nwant\n%s", row.v, got, row.want)
		}
	}
}

// TestAnActSaysAllInItsLiteral would see a field of a new kind that a literal can't hold.
func TestAnActSaysAllInItsLiteral(t *testing.T) {
	var a Act
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
	for i := range reflect.TypeFor[Act]().NumField() {
		if name := reflect.TypeFor[Act]().Field(i).Name; !strings.Contains(text, "\n"+name+": ") {
			t.Errorf("%s is missing in %s", name, text)
		}
	}
}
