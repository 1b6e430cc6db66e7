package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Environment variables that choose seeds.
const (
	envSeed    = "LOCKMESH_SIM_SEED"    // the first seed
	envSeeds   = "LOCKMESH_SIM_SEEDS"   // how many
	envSeconds = "LOCKMESH_SIM_SECONDS" // how long each run's faults last, in the world's time
	envTrace   = "LOCKMESH_SIM_TRACE"   // a file for the trace, for a single seed
)

func fromEnv(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: it must be a whole number of at least 0", name, text)
	}
	return n
}

// Length returns how long a run's faults last in the world's time: as the environment says, or
// otherwise as given.
func Length(t testing.TB, otherwise time.Duration) time.Duration {
	return time.Duration(fromEnv(t, envSeconds, uint64(otherwise/time.Second))) * time.Second
}

// TraceFile returns the file for the trace that the environment names; nil if none is named.
func TraceFile(t testing.TB) io.Writer {
	t.Helper()
	name := os.Getenv(envTrace)
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatalf("%s: %v", envTrace, err)
	}
	b := bufio.NewWriter(f)
	t.Cleanup(func() {
		if err := errors.Join(b.Flush(), f.Close()); err != nil {
			t.Errorf("%s: %v", envTrace, err)
		}
	})
	return b
}

// seedsOf returns how many seeds a test runs that runs n by default: as the environment says, and
// else a quarter with -short.
func seedsOf(t testing.TB, n int) uint64 {
	if testing.Short() {
		n = max(n/4, 1)
	}
	return fromEnv(t, envSeeds, uint64(n))
}

// EachSeed runs f as a parallel subtest for each of n seeds, named after the seed. The environment
// may choose the first seed and the number of seeds; with -short it is a quarter of them. A failing
// subtest logs the command to run its seed again.
func EachSeed(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	first, count := fromEnv(t, envSeed, 1), seedsOf(t, n)
	name := t.Name()
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("to see it again: %s", Replay(name, seed))
				}
			}()
			f(t, seed)
		})
	}
}

// Replay returns the command to run a seed of a test again.
func Replay(test string, seed uint64) string {
	extra := ""
	if s := os.Getenv(envSeconds); s != "" {
		extra = envSeconds + "=" + s + " "
	}
	return fmt.Sprintf("%s%s=%d %s=1 go test ./sim -run '^%s$'", extra, envSeed, seed, envSeeds, test)
}

// ShrinkCommand returns the command to run a seed as [Draw] draws the world, or as further flags
// say, and to shrink a failing run.
func ShrinkCommand(seed uint64, length time.Duration, flags ...string) string {
	all := append([]string{fmt.Sprintf("go run ./sim/cmd/lockmesh-sim -seed %d", seed)}, flags...)
	return fmt.Sprintf("%s -seconds %v -shrink shrunk", strings.Join(all, " "), length.Seconds())
}

// Tally sums up the figures of concurrent runs.
type Tally struct {
	mu   sync.Mutex
	f    Figures
	busy time.Duration
}

// Add adds a run that kept a processor busy for the given time.
func (t *Tally) Add(f Figures, busy time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.f.Add(f)
	t.busy += busy
}

// Figures returns the sum.
func (t *Tally) Figures() Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.f
}

func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.f.Table(t.busy)
}
