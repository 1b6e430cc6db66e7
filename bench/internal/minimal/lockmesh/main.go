// Lockmesh is a program that joins a mesh, and nothing else, for seeing what that costs.
//
// Its arguments are the node's name, the voters with commas between them, and maybe the address of another node. For each line on its standard input it
// waits until locks can be had, and prints one about itself; at the end of the input it ends.
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
