// Nightly runs a job on one of many nodes. Every node starts the job when its clock says so; the
// lock lets a single node run the job, once, even if a clock is late. When a node dies in the
// middle, the next tick runs on another node.
//
// Without -name the program demonstrates this with three nodes in one process, and ends by itself.
// With -name the program is a single node; three nodes on one machine:
//
//	nightly -name a -bind 127.0.0.1:7951 -peers 127.0.0.1:7952 -voters a,b,c
//	nightly -name b -bind 127.0.0.1:7952 -peers 127.0.0.1:7951 -voters a,b,c
//	nightly -name c -bind 127.0.0.1:7953 -peers 127.0.0.1:7951 -voters a,b,c
//
// Copy from job.go.
package main

import (
	"cmp"
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

// shutdownTimeout bounds the Leave of a node: a user who interrupts the program won't wait for
// long.
const shutdownTimeout = 5 * time.Second

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
		_, _ = fmt.Fprintf(stderr, "nightly: %v\n", err)
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
	j := &job{
		mesh: mesh, every: o.every, maxTTL: cmp.Or(o.config.MaxTTL, lockmesh.DefaultMaxTTL),
		report: func(e event) { say(mesh.Name(), "%s", e) },
		work:   func(ctx context.Context, _ time.Time, _ uint64) error { return writeReport(ctx, o.every) },
	}
	err = j.run(ctx)
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return errors.Join(err, mesh.Leave(goodbye))
}

// printer returns a function that prints a line: the time since the start, the speaker, and the
// text.
func printer(out io.Writer) func(who, format string, args ...any) {
	start := time.Now()
	return func(who, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%6.2fs  %-8s %s\n", time.Since(start).Seconds(), who, fmt.Sprintf(format, args...))
	}
}

func clock(t time.Time) string { return t.Format("15:04:05") }
