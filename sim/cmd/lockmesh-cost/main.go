// Command lockmesh-cost measures the cost of locks in messages, bytes and rounds, and how the cost
// grows with nodes, voters and leases. It runs the nodes of production in the simulator, without
// faults, so it needs no machines, and prints the same on every machine:
//
//	go run ./sim/cmd/lockmesh-cost
//
// The output is Markdown. The figures don't include processor time; see the benchmarks.
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
