// Command lockmesh-explore drives lockmesh's nodes through everything that can happen within small
// limits, and widens the limits for as long as there is time.
//
//	go run ./sim/cmd/lockmesh-explore -for 10m
//
// The exit status is 0 when nothing was violated, 1 after a violation, and 2 after any other error.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, errViolated):
		os.Exit(1) // the report has been printed
	default:
		fmt.Fprintf(os.Stderr, "lockmesh-explore: %v\n", err)
		os.Exit(2)
	}
}
