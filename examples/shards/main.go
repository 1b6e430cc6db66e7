// Shards is a pool of workers that share partitions of some work evenly. Each partition has a lock,
// held by its worker; there is no coordinator. When a worker joins, the others hand over its share;
// when a worker crashes, the others take over.
//
// Without -name the program demonstrates this with nodes in one process, and ends by itself. With
// -name the program is a single node; three nodes on one machine:
//
//	shards -name a -bind 127.0.0.1:7951 -peers 127.0.0.1:7952 -voters a,b,c
//	shards -name b -bind 127.0.0.1:7952 -peers 127.0.0.1:7951 -voters a,b,c
//	shards -name c -bind 127.0.0.1:7953 -peers 127.0.0.1:7951 -voters a,b,c
//
// Copy from worker.go, share.go and members.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
)

const (
	// goodbyeTime bounds the Leave of a node: a user who interrupts the program won't wait for
	// long.
	goodbyeTime = 5 * time.Second

	// unit is how long a unit of work takes, and so how long a worker may still keep a partition
	// after the decision to give the partition back.
	unit = 100 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, and returns the exit code.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args, env, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // parse has reported the error
	case o.demo:
		err = demo(ctx, o, stdout, stderr)
	default:
		err = serve(ctx, o, stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "shards: %v\n", err)
		return 1
	}
	return 0
}

// serve runs a node until an interrupt or the end of -for.
func serve(ctx context.Context, o *options, stdout io.Writer) error {
	if o.runFor > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.runFor)
		defer cancel()
	}
	mesh, err := lockmesh.Join(ctx, o.config)
	if err != nil {
		return err
	}
	say := printer(stdout)
	say(mesh.Name(), "listens on %s", mesh.Addr())
	w := newWorker(mesh)
	w.work = func(_ int, lease *lockmesh.Lease, enough <-chan struct{}) {
		workOn(lease, enough, func() error { return nil })
	}
	last := ""
	w.changed = func(held, members int) {
		if line := fmt.Sprintf("has %d of %d partitions, as one of %d workers", held, parts, members); members > 0 && line != last {
			last = line
			say(mesh.Name(), "%s", line)
		}
	}
	err = w.run(ctx)
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTime)
	defer cancel()
	leaveErr := mesh.Leave(goodbye)
	// The last nodes to leave have no majority; their leases expire.
	if errors.Is(leaveErr, lockmesh.ErrNoQuorum) {
		say(mesh.Name(), "left, and %v", leaveErr)
		leaveErr = nil
	}
	return errors.Join(err, leaveErr)
}

// workOn does units of work until enough is closed or the lease has ended. A real program does
// something in do, and passes the lease's token along.
func workOn(lease *lockmesh.Lease, enough <-chan struct{}, do func() error) {
	t := time.NewTicker(unit)
	defer t.Stop()
	for {
		select {
		case <-enough:
			return
		case <-lease.Done():
			return
		case <-t.C:
		}
		if lease.Err() != nil || do() != nil {
			return
		}
	}
}

// printer returns a function that prints a line: the time since the start, the subject, and the
// text.
func printer(out io.Writer) func(about, format string, args ...any) {
	start := time.Now()
	return func(about, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%6.2fs  %-8s %s\n", time.Since(start).Seconds(), about, fmt.Sprintf(format, args...))
	}
}
