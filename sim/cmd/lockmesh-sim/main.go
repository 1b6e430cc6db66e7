// Command lockmesh-sim runs lockmesh's nodes in a simulated world full of faults, and draws the
// events.
//
//	go run ./sim/cmd/lockmesh-sim -seed 7 -nodes 5 -svg run.svg
//
// The exit status is 0 when nothing was violated, 1 after a violation, and 2 after any other error.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, errViolated):
		os.Exit(1) // the report has been printed
	default:
		fmt.Fprintf(os.Stderr, "lockmesh-sim: %v\n", err)
		os.Exit(2)
	}
}
