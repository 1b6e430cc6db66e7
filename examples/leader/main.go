// Leader is a service that runs on several nodes, one of which leads and does the work; the others stand by. Each node serves a page that shows who leads, since
// when, who stands by, and who led before.
//
// Without -name it starts three nodes in one process, and with -demo it kills the leader once. With -name it is one node; three of them on one machine:
//
//	leader -name a -bind 127.0.0.1:7951 -peers 127.0.0.1:7952 -voters a,b,c -http 127.0.0.1:8081
//	leader -name b -bind 127.0.0.1:7952 -peers 127.0.0.1:7951 -voters a,b,c -http 127.0.0.1:8082
//	leader -name c -bind 127.0.0.1:7953 -peers 127.0.0.1:7951 -voters a,b,c -http 127.0.0.1:8083
//
// What to copy is in node.go.
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
	case o.three:
		err = three(ctx, o, stdout, stderr)
	default:
		err = serve(ctx, o, stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "leader: %v\n", err)
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
	say := teller(stdout)
	n, err := open(ctx, o.config, o.http)
	if err != nil {
		return err
	}
	say(n.name, "listens on %s and shows %s", n.mesh.Addr(), n.page.url())
	go func() { // ends with the node
		for token := uint64(0); ; {
			s, change := n.board.look()
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
	case <-n.ended: // it can't go on
	}
	return n.leave()
}

// teller prints lines: the time since the start, what they are about, and the rest.
func teller(out io.Writer) func(about, format string, args ...any) {
	start := time.Now()
	return func(about, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%6.2fs  %-8s %s\n", time.Since(start).Seconds(), about, fmt.Sprintf(format, args...))
	}
}
