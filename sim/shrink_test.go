package sim

import (
	"bytes"
	"cmp"
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

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// stormy are the options of a world in which much goes wrong. They name the faults, so that a new kind doesn't change them.
func stormy(seed uint64, b Builder) Options {
	const ttl = time.Second
	o := Options{
		Seed: seed, Voters: 3 + int(seed%3), Clients: 1 + int(seed%2), MaxTTL: ttl, Build: b,
		Net:    Net{Least: 200 * time.Microsecond, Most: 20 * time.Millisecond, Jitter: 100, Spikes: 5},
		Clocks: Clocks{Spread: 2 * time.Second},
		Load:   Load{Clients: 3, Keys: 3, Think: 100 * time.Millisecond, Hold: 200 * time.Millisecond, Patience: 3 * ttl, Try: 10, Forever: 30},
		Faults: Faults{Every: ttl / 2, WallSteps: time.Second},
	}
	for _, f := range []Fault{FaultCrash, FaultStop, FaultSuspend, FaultSplit, FaultOneWay, FaultIsolate, FaultLink, FaultBreak, FaultStall, FaultSlow, FaultWall} {
		o.Faults.Weights[f] = 2
	}
	o.Faults.Weights[FaultRolling], o.Faults.Weights[FaultTwin] = 1, 1
	return o
}

// stormyLength is how long such a world's faults last.
const stormyLength = 12 * time.Second

// builder returns a mutant's.
func builder(t *testing.T, name string) Builder {
	t.Helper()
	i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
	if i < 0 {
		t.Fatalf("no mutant is called %q", name)
	}
	return mutants[i].build
}

// shrunk is what shrinking leaves of the first seed from the given one on that fails.
func shrunk(t *testing.T, b Builder, seed uint64) *Shrunk {
	t.Helper()
	for last := seed + 100; seed < last; seed++ {
		s, err := Shrink(t.Context(), stormy(seed, b), stormyLength, Shrinking{})
		if err == nil {
			return s
		}
		if !errors.Is(err, errHolds) {
			t.Fatal(err)
		}
	}
	t.Fatal("no seed fails")
	return nil
}

// mute never tells of every third lease, so somebody waits for ever. That shows only when all is well again.
type mute struct{ Machine }

func neverTells(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return mute{n}, err
}

func (m mute) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(ev)
	out, ev = m.Machine.Drain(out, ev)
	told := slices.DeleteFunc(slices.Clone(ev[first:]), func(e quorum.Event) bool { return e.Number != 0 && e.Number%3 == 0 })
	return out, append(ev[:first], told...)
}

// play runs what is left, as the test that is written does.
func (s *Shrunk) play(b Builder) error {
	o := s.Options
	o.Build = b
	w := New(o)
	w.Run(s.Length)
	return w.Settle()
}

// TestAFailureShrinks demands as much as shrinking gave for each of up to eight seeds of these mutants.
func TestAFailureShrinks(t *testing.T) {
	sampled.Computes(t)
	for _, row := range []struct {
		mutant string
		seed   uint64 // from which on one is sought that fails
		most   Size
	}{
		{"no quiet time", 1, Size{Acts: 1, Nodes: 3, Requests: 0}},
		{"votes kept across a voter's lives", 10, Size{Acts: 1, Nodes: 3, Requests: 2}},
		{"majority of the peers that look alive", 14, Size{Acts: 3, Nodes: 5, Requests: 2}},
		{"hearsay of a death ends a session", 1, Size{Acts: 2, Nodes: 4, Requests: 3}},
		{"yield before uncounting", 8, Size{Acts: 2, Nodes: 5, Requests: 4}},
		{"", 1, Size{Acts: 1, Nodes: 4, Requests: 3}},
	} {
		t.Run(cmp.Or(row.mutant, "leases that nobody is told of"), func(t *testing.T) {
			t.Parallel()
			b := Builder(neverTells)
			if row.mutant != "" {
				b = builder(t, row.mutant)
			}
			s := shrunk(t, b, row.seed)
			t.Logf("%d runs: %+v to %+v", s.Runs, s.Before, s.After)
			if a, most := s.After, row.most; a.Acts > most.Acts || a.Nodes > most.Nodes || a.Requests > most.Requests || s.Early {
				t.Errorf("%+v shrinks to %+v in %d runs, want %+v at most", s.Before, a, s.Runs, most)
			}
			err := s.play(b)
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

func TestShrinkingIsDeterministic(t *testing.T) {
	t.Parallel()
	var files [2]string
	var runs [2]int
	for i := range files {
		s := shrunk(t, builder(t, "hearsay of a death ends a session"), 1)
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
	if _, err := Shrink(ctx, stormy(1, builder(t, "no quiet time")), time.Second, Shrinking{}); !errors.Is(err, context.Canceled) {
		t.Errorf("shrinking when it is too late: %v", err)
	}
}

// TestAnEndLeavesTheSmallestSoFar ends it by the number of runs, and then by the context when something has been found.
func TestAnEndLeavesTheSmallestSoFar(t *testing.T) {
	o := stormy(1, neverTells)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, row := range []struct {
		name string
		how  Shrinking
	}{
		{"the runs", Shrinking{Runs: 12}},
		{"the context", Shrinking{Progress: func(_ int, size Size) {
			if size.Requests < 10 {
				cancel()
			}
		}}},
	} {
		s, err := Shrink(ctx, o, stormyLength, row.how)
		if err != nil || !s.Early || row.how.Runs > 0 && s.Runs > row.how.Runs {
			t.Fatalf("%s didn't end it: %+v, %v", row.name, s, err)
		}
		if err := s.play(neverTells); err == nil || err.Error() != s.Violation.Error() || s.After.Requests >= s.Before.Requests {
			t.Errorf("%+v is left of %+v, and it says %v", s.After, s.Before, err)
		}
	}
}

// TestTheWrittenTestIsGo has the compiler look at it, where it is meant to be.
func TestTheWrittenTestIsGo(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	s := shrunk(t, builder(t, "majority of the peers that look alive"), 14)
	var b bytes.Buffer
	if err := s.WriteTest(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"func TestShrunkSeed", "//\tcover violated", "[]sim.Act{", "Fault: sim.Fault", "w.Run(", "w.Settle()"} {
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
	if err := shrunk(t, builder(t, "hearsay of a death ends a session"), 1).WritePicture(&b); err != nil {
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

func TestAFollowingWorldIsNotShrunk(t *testing.T) {
	if _, err := Shrink(t.Context(), DrawFollowing(1), time.Second, Shrinking{}); !errors.Is(err, errFollowing) {
		t.Errorf("it says %v", err)
	}
}
