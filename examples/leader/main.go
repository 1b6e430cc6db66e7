// Leader is a service on several nodes: one node leads and does the work, and the others are on
// standby. Each node serves a page with the leader, the time of its election, the standbys, and the
// earlier leaders.
//
// Without -name the program starts three nodes in one process, and with -demo it kills the leader
// once. With -name the program is a single node; three nodes on one machine:
//
//	leader -name a -bind 127.0.0.1:7951 -peers 127.0.0.1:7952 -voters a,b,c -http 127.0.0.1:8081
//	leader -name b -bind 127.0.0.1:7952 -peers 127.0.0.1:7951 -voters a,b,c -http 127.0.0.1:8082
//	leader -name c -bind 127.0.0.1:7953 -peers 127.0.0.1:7951 -voters a,b,c -http 127.0.0.1:8083
//
// Copy from node.go.
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
	case o.three:
		err = runDemo(ctx, o, stdout, stderr)
	default:
		err = serve(ctx, o, stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "leader: %v\n", err)
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
	say := printer(stdout)
	n, err := open(ctx, o.config, o.http)
	if err != nil {
		return err
	}
	say(n.name, "listens on %s and shows %s", n.mesh.Addr(), n.page.url())
	go func() { // ends with the node
		for token := uint64(0); ; {
			s, change := n.board.snapshot()
			if l := s.Leader; l != nil && l.Token != token {
				token = l.Token
				say(n.name, "sees node %s lead by token %d", l.Node, l.Token)
			}
			select {
			case <-change:
			case <-n.ended:
				return
			}
		}
	}()
	select {
	case <-ctx.Done():
	case <-n.ended: // the node can't go on
	}
	return n.leave()
}

// printer returns a function that prints a line: the time since the start, the subject, and the
// text.
func printer(out io.Writer) func(about, format string, args ...any) {
	start := time.Now()
	return func(about, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%6.2fs  %-8s %s\n", time.Since(start).Seconds(), about, fmt.Sprintf(format, args...))
	}
}
