// Nightly runs a job on one of many nodes. Every node starts the job when its clock says so; the lock lets one of them run it, once, also when
// a clock is late, and when a node dies in the middle the next tick runs on another.
//
// Without -name it shows that with three nodes in one process, and ends by itself. With -name it is one node; three of them on one machine:
//
//	nightly -name a -bind 127.0.0.1:7951 -peers 127.0.0.1:7952 -voters a,b,c
//	nightly -name b -bind 127.0.0.1:7952 -peers 127.0.0.1:7951 -voters a,b,c
//	nightly -name c -bind 127.0.0.1:7953 -peers 127.0.0.1:7951 -voters a,b,c
//
// What to copy is in job.go.
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

// goodbyeTime bounds the goodbye of a node that ends. Whoever interrupts it is not willing to wait for long.
const goodbyeTime = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program, up to its exit code.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args, env, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // parse has said why
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

// serve is one node, until it is interrupted or -for has passed.
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
	say := teller(stdout)
	say(mesh.Name(), "listens on %s", mesh.Addr())
	j := &job{
		mesh: mesh, every: o.every, maxTTL: cmp.Or(o.config.MaxTTL, lockmesh.DefaultMaxTTL),
		tell: func(e event) { say(mesh.Name(), "%s", e) },
		work: func(ctx context.Context, _ time.Time, _ uint64) error { return writeReport(ctx, o.every) },
	}
	err = j.run(ctx)
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTime)
	defer cancel()
	return errors.Join(err, mesh.Leave(goodbye))
}

// teller prints lines: the time since the start, who speaks, and what.
func teller(out io.Writer) func(who, format string, args ...any) {
	start := time.Now()
	return func(who, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%6.2fs  %-8s %s\n", time.Since(start).Seconds(), who, fmt.Sprintf(format, args...))
	}
}

func clock(t time.Time) string { return t.Format("15:04:05") }
