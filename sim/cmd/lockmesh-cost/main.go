// Command lockmesh-cost measures what locks cost in messages, bytes and rounds, and how that grows with nodes, voters and leases. It runs
// the nodes of production in the simulator, without faults, so it needs no machines, and says the same on every machine:
//
//	go run ./sim/cmd/lockmesh-cost
//
// It prints Markdown. What a processor needs for all that isn't in these figures: benchmarks tell that.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "lockmesh-cost: %v\n", err)
		os.Exit(2)
	}
}
