// Command lockmesh-sim runs lockmesh's nodes in a simulated world where everything goes wrong, and draws what happened.
//
//	go run ./sim/cmd/lockmesh-sim -seed 7 -nodes 5 -svg run.svg
//
// It ends with 0 when nothing was violated, with 1 after a violation, and with 2 when it couldn't do what the flags ask for.
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
		os.Exit(1) // all is said
	default:
		fmt.Fprintf(os.Stderr, "lockmesh-sim: %v\n", err)
		os.Exit(2)
	}
}
