// Package sampled decides how many cases a test tries. A test of hundreds of cases tries all cases
// in the hunt (build tag hunt), a fixed sample in the gate, and fewer with -short. So the same
// commit gets the same answer each time, and no case is lost.
package sampled

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// shorter is how many times fewer cases are tried with -short.
const shorter = 4

// Case reports whether a test tries its case number i, counted from 0: all cases in the hunt,
// otherwise each stride-th from the first on, and with -short a quarter of those.
func Case(i, stride int) bool {
	switch {
	case Whole:
		return true
	case testing.Short():
		stride *= shorter
	}
	return i%stride == 0
}

// Count returns how many cases a test draws at random, from fixed seeds: the first number in the
// gate, the second in the hunt.
func Count(gate, hunt int) int {
	if Whole {
		return hunt
	}
	return gate
}

// Together lets up to n parallel tests of a package run at once, unless the flag -parallel is set
// to another number than the number of processors. TestMain calls Together before the tests run, in
// a package with parallel tests that wait for the end of leases and compute next to nothing.
func Together(n int) {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = p.Value.Set(fmt.Sprint(n)) // a number is a valid value
	}
}

// CollectRarely makes garbage collection rare, unless the environment variable GOGC says otherwise.
// TestMain calls CollectRarely in a package whose tests make much garbage: the tests need about a
// quarter less of a processor, and some hundred megabytes more. Where all cases are tried, or the
// race detector watches, memory is scarcer than time, and CollectRarely does nothing.
func CollectRarely() {
	if os.Getenv("GOGC") == "" && !Whole && !Raced {
		debug.SetGCPercent(400)
	}
}

// Waits skips the rest of a test with -short, since the test waits for real time to pass: for quiet
// voters, the end of leases, the start of processes.
func Waits(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("this test waits for real time to pass; -short leaves the test out")
	}
}

// OnlyRaced skips the rest of a test that waits for a quarter of a minute or longer for real time
// to pass, unless the race detector watches, all cases are tried, or the flag -run chooses tests.
// The gate runs the test under the race detector; where there is none, as on 32-bit systems, the
// hunt runs the test.
func OnlyRaced(t testing.TB) {
	t.Helper()
	if !Raced && !Whole && flag.Lookup("test.run").Value.String() == "" {
		t.Skip("this test waits for long: run the test by its name, or with -race as the gate does")
	}
}

// Computes skips the rest of a test with -short, since the test computes for a fifth of a second or
// more. A contributor runs -short after each change, and the gate runs all tests.
func Computes(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("this test computes for long; -short leaves the test out")
	}
}

// Unraced skips the rest of a test under the race detector, save in the hunt: of the goroutines
// that the test runs, other tests run the same, and the race detector makes the test's computing
// slow.
func Unraced(t testing.TB) {
	t.Helper()
	if Raced && !Whole {
		t.Skip("this test computes for long; the race detector watches it in the hunt")
	}
}
