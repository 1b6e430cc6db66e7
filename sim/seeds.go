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

// The environment that chooses seeds.
const (
	envSeed    = "LOCKMESH_SIM_SEED"    // the first seed
	envSeeds   = "LOCKMESH_SIM_SEEDS"   // how many
	envSeconds = "LOCKMESH_SIM_SECONDS" // how long each run's faults last, in the world's time
	envTrace   = "LOCKMESH_SIM_TRACE"   // a file that takes the trace; for one seed
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

// Length returns how long a run's faults last in the world's time: as the environment says, or otherwise as given.
func Length(t testing.TB, otherwise time.Duration) time.Duration {
	return time.Duration(fromEnv(t, envSeconds, uint64(otherwise/time.Second))) * time.Second
}

// TraceFile returns the file to which the environment wants the trace written; nil when it doesn't.
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

// EachSeed runs f as a subtest for each of n seeds, named by its seed, on all processors at once. The environment may choose the
// first seed and their number. A failing subtest tells the command that runs it again.
func EachSeed(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	first, count := fromEnv(t, envSeed, 1), fromEnv(t, envSeeds, uint64(n))
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

// Replay returns the command that runs one seed of a test again.
func Replay(test string, seed uint64) string {
	extra := ""
	if s := os.Getenv(envSeconds); s != "" {
		extra = envSeconds + "=" + s + " "
	}
	return fmt.Sprintf("%s%s=%d %s=1 go test ./sim -run '^%s$'", extra, envSeed, seed, envSeeds, test)
}

// ShrinkCommand returns the command that runs a seed as [Draw] draws it, or as further flags say, and shrinks it if it fails.
func ShrinkCommand(seed uint64, length time.Duration, flags ...string) string {
	all := append([]string{fmt.Sprintf("go run ./sim/cmd/lockmesh-sim -seed %d", seed)}, flags...)
	return fmt.Sprintf("%s -seconds %v -shrink shrunk", strings.Join(all, " "), length.Seconds())
}

// Tally sums up the figures of runs that go on at once.
type Tally struct {
	mu   sync.Mutex
	f    Figures
	busy time.Duration
}

// Add adds a run that kept a processor busy for so long.
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
