// Command lockmesh-mutants breaks the source of the core, one line at a time, and lists the broken
// lines unnoticed by the tests:
//
//	go run ./sim/cmd/lockmesh-mutants            # the mutants that docs/mutants.md is about
//	go run ./sim/cmd/lockmesh-mutants -tenth 3   # every tenth of them, from the third on
//
// All mutants are compiled into the test binaries together, each behind a switch of its own, and an
// environment variable chooses the active mutant: mutant schemata (Untch, Offutt and Harrold,
// "Mutation analysis using mutant schemata", 1993). So nothing is compiled for each mutant, and no
// file of the repository is changed: the go command gets the broken files as an overlay.
//
// The mutants of package sim wrap whole nodes and break the messages sent or received by a node.
// The mutants here break the rules inside.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errSurvivors):
		fmt.Fprintf(os.Stderr, "lockmesh-mutants: %v\n", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintf(os.Stderr, "lockmesh-mutants: %v\n", err)
		os.Exit(2)
	}
}
