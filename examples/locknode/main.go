// Locknode is one node of a mesh as a program: it joins, takes a lock once or over and over, and prints what happens, a line for each
// event. With -commands it obeys words on its standard input, so that a person or a test can try out a mesh of real processes.
//
// Three of them on one machine:
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

// Exit codes. Everything that an operator has to mend is exitBad or exitUsage.
const (
	exitOK    = 0
	exitBad   = 1
	exitUsage = 2
)

// goodbyeTime bounds the goodbye after a signal. Whoever sends one is not willing to wait for long. Where the electorate follows the living a voter has
// itself voted out first, which takes a little more than one MaxTTL; partsTTLs is how many it has for that.
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
		os.Exit(exitUsage) // parse has said why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, opts, newReport(os.Stdout, opts.json))
	stop()
	os.Exit(code)
}

// run is the life of the node, from Join to its goodbye.
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
	n.tasks.Go(func() { n.announceReady(ctx) })
	if o.config.StateDir != "" {
		n.tasks.Go(func() { n.tellElectorate(ctx) })
	}
	if o.trace {
		n.tasks.Go(func() { n.traceVoters(ctx) })
	}
	if o.commands {
		go n.obey(ctx, os.Stdin) // ends with its input, which nothing else can interrupt
	}
	if o.lock != "" {
		n.tasks.Go(func() { n.work(ctx) })
	}
	<-ctx.Done()
	n.tasks.Wait() // so that the goodbye doesn't give a lock away under the worker that writes by it
	return n.finish(context.Cause(ctx))
}
