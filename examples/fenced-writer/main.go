// Fenced-writer shows how a paused lock holder is refused. Two processes write to one SQLite
// database under a lock. The first process is stopped between its last check of its lease and its
// write, for longer than the lease lasts. The second process takes over and writes. Then the first
// process wakes up and writes, as it still believes to hold the lock, and the database refuses its
// token.
//
// Copy from writer.go; the other files direct the story.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

const (
	// maxTTL is for how long a lease outlives its holder's last message, and for how long a voter
	// is quiet after its start. Two seconds keep the story short.
	maxTTL = 2 * time.Second
	// key is the lock, and the name of the fenced resource.
	key = "billing/ledger"
	// enough is the time limit of the story, more than twice the usual time.
	enough = 18 * time.Second
)

// voters are the names of the voting nodes. They run in the process that directs the story.
var voters = []string{"a", "b", "c"}

const usage = `fenced-writer shows how a paused holder of a lock is refused: two processes write to one SQLite
database; the first is stopped until the second has taken over, and then writes late.
It ends by itself in less than ten seconds, and leaves nothing behind.

    go run . [-pause stop|cut]

`

func main() {
	os.Exit(run())
}

func run() int {
	flags := flag.NewFlagSet("fenced-writer", flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	pause := flags.String("pause", pauses[0], "how the first holder is paused: one of "+strings.Join(pauses, ", ")+
		"\nstop stops its process by a signal, cut ends its node and lets it go on as if it didn't know")
	name := flags.String("writer", "", "be the writer of this name; the program starts these itself")
	database := flags.String("db", "", "the database of that writer")
	peers := flags.String("peers", "", "addresses of nodes for that writer, with commas")
	if err := flags.Parse(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	known := false
	for _, p := range pauses {
		known = known || p == *pause
	}
	if flags.NArg() > 0 || !known {
		_, _ = fmt.Fprintf(os.Stderr, "fenced-writer: -pause is one of %s on this system, and there are no other arguments; see -h\n", strings.Join(pauses, ", "))
		return 2
	}

	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *name != "" {
		if err := runWriter(interrupted, *name, *database, strings.Split(*peers, ",")); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "writer %s: %v\n", *name, err)
			return 1
		}
		return 0
	}
	ctx, cancel := context.WithTimeoutCause(interrupted, enough, fmt.Errorf("the demo has not "+
		"finished within %v", enough))
	defer cancel()
	s := newDemo(os.Stdout, *pause)
	err := errors.Join(s.run(ctx), s.end())
	switch {
	case interrupted.Err() != nil:
		s.printf("", "stop", "interrupted")
		return 130 // the exit code that a shell reports after SIGINT
	case err != nil:
		s.printf("", "FAILED", "%v", err)
		_, _ = os.Stderr.WriteString(s.log.String())
		return 1
	}
	return 0
}
