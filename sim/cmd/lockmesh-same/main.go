// Command lockmesh-same prints a fingerprint of the protocol's behaviour: for each kind of
// simulated world and each seed the digest of all events and of all bytes on the wire. Two versions
// of the code that print the same lines decide the same. So a refactoring that only moves or
// renames code is proven by two equal outputs; `make same` compares the working tree with an
// earlier commit.
//
//	go run ./sim/cmd/lockmesh-same -seeds 400
//
// A world that violates a check gets the word "violated" instead of its digest: two versions may
// still be compared, and a refactoring must not change that either.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/sim"
)

// coalescing returns a draw whose worlds also keep messages in queues.
func coalescing(draw func(uint64) sim.Options) func(uint64) sim.Options {
	return func(seed uint64) sim.Options {
		o := draw(seed)
		o.DrawCoalescing()
		return o
	}
}

// inPieces returns a draw whose nodes make syncs a few requests at a time.
func inPieces(draw func(uint64) sim.Options) func(uint64) sim.Options {
	return func(seed uint64) sim.Options {
		o := draw(seed)
		o.DrawTurn()
		return o
	}
}

// swarms lists the kinds of worlds, under names that stay the same when functions are renamed.
var swarms = []struct {
	name string
	draw func(seed uint64) sim.Options
}{
	{"fixed", sim.Draw},
	{"fixed-lingering", coalescing(sim.Draw)},
	{"beyond", sim.DrawBeyond},
	{"beyond-lingering", coalescing(sim.DrawBeyond)},
	{"dynamic", sim.DrawDynamic},
	{"dynamic-lingering", coalescing(sim.DrawDynamic)},
	{"lists", sim.DrawLists},
	{"pieces", inPieces(sim.Draw)},
	{"dynamic-pieces", inPieces(sim.DrawDynamic)},
	{"counted", sim.DrawByCount},
	{"registered", sim.DrawWithRegister},
	{"converting", sim.DrawFromFixed},
	{"strangers", sim.DrawMisconfigured},
}

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp): // Parse has printed the help
	case err != nil:
		fmt.Fprintf(os.Stderr, "lockmesh-same: %v\n", err)
		os.Exit(2)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("lockmesh-same", flag.ContinueOnError)
	f.SetOutput(stderr)
	seeds := f.Int("seeds", 400, "how `many` seeds of each kind of world, from 1 on")
	seconds := f.Int("seconds", 5, "how many simulated `seconds` the faults of each world last")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: lockmesh-same takes only flags", f.Arg(0))
	}
	if *seeds < 1 || *seconds < 1 {
		return fmt.Errorf("-seeds %d -seconds %d: both must be at least 1", *seeds, *seconds)
	}
	digests := make([]string, len(swarms)**seeds)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(digests)); i = next.Add(1) - 1 {
				seed := uint64(i)%uint64(*seeds) + 1
				digests[i] = digest(swarms[int(i) / *seeds].draw(seed), time.Duration(*seconds)*time.Second)
			}
		})
	}
	wait.Wait()
	var b strings.Builder
	for i, d := range digests {
		fmt.Fprintf(&b, "%s %d %s\n", swarms[i / *seeds].name, i%*seeds+1, d)
	}
	_, err := io.WriteString(stdout, b.String())
	return err
}

// digest runs a world to its end.
func digest(o sim.Options, faults time.Duration) string {
	w := sim.New(o)
	w.Run(faults)
	if err := w.Settle(); err != nil {
		return "violated"
	}
	return fmt.Sprintf("%016x", w.Hash())
}
