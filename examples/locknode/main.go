// Locknode is a program for a node of a mesh: it joins, takes a lock once or repeatedly, and prints
// a line for each event. With -commands, locknode obeys commands on its standard input, so a person
// or a test can try out a mesh of real processes.
//
// Three nodes on one machine:
//
//	locknode -name a -bind 127.0.0.1:7951 -peers 127.0.0.1:7952 -voters a,b,c -lock demo
//	locknode -name b -bind 127.0.0.1:7952 -peers 127.0.0.1:7951 -voters a,b,c -lock demo
//	locknode -name c -bind 127.0.0.1:7953 -peers 127.0.0.1:7951 -voters a,b,c -lock demo
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
)

// Exit codes. A problem for the operator to fix is exitBad or exitUsage.
const (
	exitOK    = 0
	exitBad   = 1
	exitUsage = 2
)

// goodbyeTime bounds the Leave after a signal: the sender of a signal won't wait for long. With
// dynamic membership, a voter first has itself voted out, in little more than one MaxTTL; partsTTLs
// is the time limit for this, in MaxTTL.
const (
	goodbyeTime = 5 * time.Second
	partsTTLs   = 3
)

func main() {
	opts, err := parse(os.Args[1:], os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(exitOK)
	case err != nil:
		os.Exit(exitUsage) // parse has reported the error
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, opts, newReport(os.Stdout, opts.json))
	stop()
	os.Exit(code)
}

// run runs the node, from Join to Leave.
func run(ctx context.Context, o *options, out *report) int {
	mesh, err := lockmesh.Join(ctx, o.config)
	if err != nil {
		out.fail("join", "", err)
		return exitBad
	}
	out.print(event{Event: "listening", Node: mesh.Name(), Addr: mesh.Addr()})
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	n := &node{mesh: mesh, out: out, opts: o, end: end, leases: make(map[string]*lockmesh.Lease)}
	n.tasks.Go(func() { n.announce(ctx, "ready", n.mesh.Ready) })
	n.tasks.Go(func() { n.announce(ctx, "settled", n.mesh.Settled) })
	if o.config.StateDir != "" || o.config.Expect > 0 {
		n.tasks.Go(func() { n.printElectorate(ctx) })
	}
	if o.trace {
		n.tasks.Go(func() { n.traceVoters(ctx) })
	}
	if o.commands {
		go n.readCommands(ctx, os.Stdin) // ends with its input, since nothing else can interrupt a read
	}
	if o.lock != "" {
		n.tasks.Go(func() { n.work(ctx) })
	}
	<-ctx.Done()
	n.tasks.Wait() // so that Leave doesn't release the lock of a worker still writing
	return n.finish(context.Cause(ctx))
}
