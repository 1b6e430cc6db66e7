package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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

// lengthFor returns how long a run's faults last in the world's time: as the environment says, or
// otherwise as given.
func lengthFor(t testing.TB, otherwise time.Duration) time.Duration {
	return time.Duration(fromEnv(t, envSeconds, uint64(otherwise/time.Second))) * time.Second
}

// traceFile returns the file for the trace that the environment names; nil if none is named.
func traceFile(t testing.TB) io.Writer {
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
// else an eighth with -short.
func seedsOf(t testing.TB, n int) uint64 {
	if testing.Short() {
		n = max(n/8, 1)
	}
	return fromEnv(t, envSeeds, uint64(n))
}

// eachSeed runs f as a parallel subtest for each of n seeds, named after the seed. The environment
// may choose the first seed and the number of seeds; with -short it is an eighth of them. A failing
// subtest logs the command to run its seed again.
func eachSeed(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	first, count := fromEnv(t, envSeed, 1), seedsOf(t, n)
	name := t.Name()
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("to see it again: %s", replay(name, seed))
				}
			}()
			f(t, seed)
		})
	}
}

// replay returns the command to run a seed of a test again.
func replay(test string, seed uint64) string {
	extra := ""
	if s := os.Getenv(envSeconds); s != "" {
		extra = envSeconds + "=" + s + " "
	}
	return fmt.Sprintf("%s%s=%d %s=1 go test ./sim -run '^%s$'", extra, envSeed, seed, envSeeds, test)
}
