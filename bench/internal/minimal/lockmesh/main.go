// Lockmesh is a program that only joins a mesh, for measuring the cost of joining.
//
// The arguments are the node's name, the voters separated by commas, and optionally the address of
// another node. For each line on standard input, the program prints a line about itself; for a line
// with "ready", the program first waits until locks can be had. The program ends at the end of the
// input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/lockmesh/lockmesh"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	before := runtime.NumGoroutine()
	ctx := context.Background()
	mesh, err := lockmesh.Join(ctx, lockmesh.Config{
		Name: os.Args[1], Voters: strings.Split(os.Args[2], ","), Peers: os.Args[3:], Bind: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if strings.Contains(in.Text(), "ready") {
			if err := mesh.Ready(ctx); err != nil {
				return err
			}
		}
		fmt.Printf(`{"Result":{"Addr":%q,"Goroutines":%d}}`+"\n", mesh.Addr(), runtime.NumGoroutine()-before)
	}
	return nil
}
