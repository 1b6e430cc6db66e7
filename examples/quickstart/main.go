// Quickstart tells what lockmesh does by doing it: three nodes in one process contend for a lock, the holder's node is killed, the
// next waiter takes over when the dead lease ends, and the dead node comes back. It ends by itself; its output is the explanation.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// enough is how long the whole story may take. It takes about 10 seconds, and longer on a busy
// machine; only a story that hangs takes so long.
const enough = 5 * time.Minute

func main() {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeoutCause(interrupted, enough, fmt.Errorf("it has not come to its end within %v", enough))
	s := newStory(os.Stdout)
	err := errors.Join(s.tell(ctx), s.end())
	code := 0
	switch {
	case interrupted.Err() != nil:
		s.say("stop", "interrupted; all nodes have been closed")
		code = 130 // as a shell says it of a program that ended by SIGINT
	case err != nil:
		s.say("FAILED", "%v", err)
		_, _ = os.Stderr.WriteString(s.log.String())
		code = 1
	}
	cancel()
	stop()
	os.Exit(code)
}
