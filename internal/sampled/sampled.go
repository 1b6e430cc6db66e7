// Package sampled decides how many cases a test tries. A test of hundreds of cases tries all of them
// in the hunt (build tag hunt), a fixed sample in the gate, and less with -short. So the same commit
// gets the same answer each time, and no case is lost.
package sampled

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
)

// shorter is how many times fewer cases are tried with -short.
const shorter = 4

// Case reports whether a test tries its case number i, counted from 0: all cases in the hunt,
// otherwise each stride-th from the first on, and with -short a quarter of those.
func Case(i, stride int) bool {
	switch {
	case whole:
		return true
	case testing.Short():
		stride *= shorter
	}
	return i%stride == 0
}

// Count returns how many cases a test draws at random, from fixed seeds: the first number in the gate,
// the second in the hunt.
func Count(gate, hunt int) int {
	if whole {
		return hunt
	}
	return gate
}

// Together has up to n parallel tests of a package run at once, unless the flag -parallel says
// another number than the number of processors. It is called by TestMain, before the tests are run,
// of a package whose parallel tests wait for leases to end, and compute next to nothing.
func Together(n int) {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = p.Value.Set(fmt.Sprint(n)) // a number is a value that it takes
	}
}

// Waits skips the rest of a test with -short, since it waits for real time to pass: for quiet voters,
// leases that end, processes that start.
func Waits(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it waits for real time to pass; -short leaves it out")
	}
}

// Computes skips the rest of a test with -short, since it computes for a second or more.
func Computes(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it computes for long; -short leaves it out")
	}
}
