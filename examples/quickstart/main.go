// Quickstart demonstrates lockmesh: three nodes in one process contend for a lock, the holder's
// node is killed, the next waiter takes over when the dead lease ends, and the dead node returns.
// The program ends by itself; its output is the explanation.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// demoTimeout is the time limit of the story. The story takes about 10 seconds, and longer on a
// busy machine; only a story that hangs takes so long.
const demoTimeout = 5 * time.Minute

func main() {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeoutCause(interrupted, demoTimeout,
		fmt.Errorf("the demo has not finished within %v", demoTimeout))
	s := newDemo(os.Stdout)
	err := errors.Join(s.run(ctx), s.end())
	code := 0
	switch {
	case interrupted.Err() != nil:
		s.printf("stop", "interrupted; all nodes have been closed")
		code = 130 // the exit code that a shell reports after SIGINT
	case err != nil:
		s.printf("FAILED", "%v", err)
		_, _ = os.Stderr.WriteString(s.log.String())
		code = 1
	}
	cancel()
	stop()
	os.Exit(code)
}
