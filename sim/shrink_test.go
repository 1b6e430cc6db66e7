package sim_test

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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim"
	"github.com/lockmesh/lockmesh/sim/fault"
	"github.com/lockmesh/lockmesh/sim/shrink"
)

// stormy returns the options of a world with many faults. The options name the faults, so that a
// new kind of fault doesn't change the world.
func stormy(seed uint64, b sim.Builder) sim.Options {
	const ttl = time.Second
	o := sim.Options{
		Seed: seed, Voters: 3 + int(seed%3), Clients: 1 + int(seed%2), MaxTTL: ttl, Build: b,
		Net:    sim.Net{Least: 200 * time.Microsecond, Most: 20 * time.Millisecond, Jitter: 100, Spikes: 5},
		Clocks: sim.Clocks{Spread: 2 * time.Second},
		Load:   sim.Load{Clients: 3, Keys: 3, Think: 100 * time.Millisecond, Hold: 200 * time.Millisecond, Patience: 3 * ttl, Try: 10, Forever: 30},
		Faults: sim.Faults{Every: ttl / 2, WallSteps: time.Second},
	}
	for _, f := range []fault.Kind{fault.Crash, fault.Stop, fault.Suspend, fault.Split, fault.OneWay, fault.Isolate, fault.Link, fault.Break, fault.Stall, fault.Slow, fault.Wall} {
		o.Faults.Weights[f] = 2
	}
	o.Faults.Weights[fault.Rolling], o.Faults.Weights[fault.Duplicate] = 1, 1
	return o
}

// stormyLength is how long such a world's faults last.
const stormyLength = 12 * time.Second

// shrunk shrinks the first failing seed, starting at the given seed.
func shrunk(t *testing.T, b sim.Builder, seed uint64) *shrink.Result {
	t.Helper()
	for last := seed + 100; seed < last; seed++ {
		s, err := shrink.Run(t.Context(), stormy(seed, b), stormyLength, shrink.Settings{})
		if err == nil {
			return s
		}
		if !errors.Is(err, shrink.ErrHolds) {
			t.Fatal(err)
		}
	}
	t.Fatal("no seed fails")
	return nil
}

// mute drops the events of every third request, so a caller waits indefinitely. The harm shows only
// after the faults.
type mute struct{ sim.Machine }

func neverTells(_ *sim.World, cfg node.Config, now vote.Now) (sim.Machine, error) {
	n, err := node.New(cfg, now)
	return mute{n}, err
}

func (m mute) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(ev)
	out, ev = m.Machine.Drain(out, ev)
	told := slices.DeleteFunc(slices.Clone(ev[first:]), func(e quorum.Event) bool { return e.Number != 0 && e.Number%3 == 0 })
	return out, append(ev[:first], told...)
}

// play runs the shrunk world, as the written test does.
func play(s *shrink.Result, b sim.Builder) error {
	o := s.Options
	o.Build = b
	w := sim.New(o)
	w.Run(s.Length)
	return w.Settle()
}

// TestAFailureShrinks demands results no larger than shrinking gave for each of up to eight seeds
// of these mutants.
func TestAFailureShrinks(t *testing.T) {
	sampled.Computes(t)
	for _, row := range []struct {
		mutant string
		seed   uint64 // the first seed to try
		most   shrink.Size
	}{
		{"no quiet time", 1, shrink.Size{Acts: 1, Nodes: 3, Requests: 0}},
		{"votes kept across a voter's incarnations", 10, shrink.Size{Acts: 1, Nodes: 3, Requests: 2}},
		{"majority of the peers that look alive", 14, shrink.Size{Acts: 3, Nodes: 5, Requests: 2}},
		{"hearsay of a death ends a session", 1, shrink.Size{Acts: 2, Nodes: 4, Requests: 3}},
		{"yield before uncounting", 8, shrink.Size{Acts: 2, Nodes: 5, Requests: 4}},
		{"", 1, shrink.Size{Acts: 1, Nodes: 4, Requests: 3}},
	} {
		t.Run(cmp.Or(row.mutant, "leases that nobody is told of"), func(t *testing.T) {
			t.Parallel()
			b := sim.Builder(neverTells)
			if row.mutant != "" {
				b = sim.MutantBuilder(t, row.mutant)
			}
			s := shrunk(t, b, row.seed)
			t.Logf("%d runs: %+v to %+v", s.Runs, s.Before, s.After)
			if a, most := s.After, row.most; a.Acts > most.Acts || a.Nodes > most.Nodes || a.Requests > most.Requests || s.Early {
				t.Errorf("%+v shrinks to %+v in %d runs, want %+v at most", s.Before, a, s.Runs, most)
			}
			err := play(s, b)
			var v *sim.Violation
			if !errors.As(err, &v) || v.Check != s.Check || *v != *s.Violation {
				t.Errorf("the shrunk run says %v, and Shrink %v; it was about %s", err, s.Violation, s.Check)
			}
			if err := play(s, nil); err != nil {
				t.Errorf("without the mutant: %v", err)
			}
		})
	}
}

func TestShrinkingIsDeterministic(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	var files [2]string
	var runs [2]int
	for i := range files {
		s := shrunk(t, sim.MutantBuilder(t, "hearsay of a death ends a session"), 1)
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
	if _, err := shrink.Run(t.Context(), sim.Draw(1), time.Second, shrink.Settings{}); !errors.Is(err, shrink.ErrHolds) {
		t.Errorf("shrinking a good run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shrink.Run(ctx, stormy(1, sim.MutantBuilder(t, "no quiet time")), time.Second, shrink.Settings{}); !errors.Is(err, context.Canceled) {
		t.Errorf("shrinking when it is too late: %v", err)
	}
}

// TestAnEndLeavesTheSmallestSoFar ends shrinking by the number of runs, and then by the context
// once a small failure is found.
func TestAnEndLeavesTheSmallestSoFar(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	o := stormy(1, neverTells)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, row := range []struct {
		name string
		how  shrink.Settings
	}{
		{"the runs", shrink.Settings{Runs: 12}},
		{"the context", shrink.Settings{Progress: func(_ int, size shrink.Size) {
			if size.Requests < 10 {
				cancel()
			}
		}}},
	} {
		s, err := shrink.Run(ctx, o, stormyLength, row.how)
		if err != nil || !s.Early || row.how.Runs > 0 && s.Runs > row.how.Runs {
			t.Fatalf("%s didn't end it: %+v, %v", row.name, s, err)
		}
		if err := play(s, neverTells); err == nil || err.Error() != s.Violation.Error() || s.After.Requests >= s.Before.Requests {
			t.Errorf("%+v is left of %+v, and it says %v", s.After, s.Before, err)
		}
	}
}

// TestTheWrittenTestIsGo runs go vet on the written test, in the place for which the test is meant.
func TestTheWrittenTestIsGo(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	s := shrunk(t, sim.MutantBuilder(t, "majority of the peers that look alive"), 14)
	var b bytes.Buffer
	if err := s.WriteTest(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"func TestShrunkSeed", "//\tvalidity violated", "[]fault.Act{", "Fault: fault.", "w.Run(", "w.Settle()"} {
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
	if out, err := exec.CommandContext(t.Context(), "go", "vet", "-overlay", filepath.Join(dir, "overlay"), here).CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s\n%s", err, out, b.String())
	}
}

func TestTheShrunkPictureShowsTheViolation(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := shrunk(t, sim.MutantBuilder(t, "hearsay of a death ends a session"), 1).WritePicture(&b); err != nil {
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
