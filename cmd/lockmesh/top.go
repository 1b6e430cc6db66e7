package main

import (
	"context"
	"os"
	"time"

	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/top"
)

// topVerb shows the mesh live.
type topVerb struct {
	Prefix   string        `arg:"" optional:"" help:"Begin with the keys that begin so, and count the grants of these keys alone."`
	Every    time.Duration `default:"1s" placeholder:"TIME" help:"The time between two looks. (${default})"`
	Sort     string        `enum:"wait,grants,held,name" default:"wait" help:"The order of the keys: wait (the longest wait first), grants (the most grants seen first), held (held longest first), or name. (${default})"`
	NoGrants bool          `help:"Don't count grants. While they are counted, nodes don't hand keys off between their own callers, so that locks may take longer."`
}

// Help implements [kong.HelpProvider].
func (*topVerb) Help() string {
	return `A screen with the voters and their round trips, the leases and requests of the node, and the keys in
use: who holds them, and who waits. Looks at the mesh, and changes nothing. ? shows the keys of the
keyboard, q ends the screen.

Needs a terminal. A script uses lockmesh status, ls or watch.

Examples:
  lockmesh top
  lockmesh top --sort grants jobs/`
}

// needNone ends an error: the verbs to use without a terminal.
const needNone = "lockmesh status, ls and watch need none"

// Run runs the verb.
func (v *topVerb) Run(ctx context.Context, g *globals) error {
	order, _ := top.OrderOf(v.Sort) // kong has checked the word
	switch {
	case v.Every < top.MinEvery:
		return usage("--every %v is shorter than %v: each look has the voters asked for all keys shown",
			v.Every, top.MinEvery)
	case v.NoGrants && order == top.ByGrants:
		return usage("--sort grants needs the grants to be counted; leave out --no-grants")
	case g.Output == "json":
		return usage("top is for people, and has no JSON: lockmesh status, ls and watch have -o json")
	case g.Verbose && isTerminal(g.err):
		return usage("-v would write into the screen; leave it out, or send standard error to a file")
	case !isTerminal(g.in) || !isTerminal(g.out):
		return usage("top needs a terminal, for its screen and for the keyboard; " + needNone)
	case os.Getenv("TERM") == "dumb":
		return usage("top needs a terminal with a movable cursor, and TERM is dumb; " + needNone)
	}
	signals, stop := listen()
	defer stop()
	l, err := g.connectUntilSignal(ctx, signals)
	if err != nil {
		return err
	}
	defer l.close()
	c, err := l.client(nil)
	if err != nil {
		return err
	}
	stops := make(chan struct{}, 1)
	showing, end := watchSignals(ctx, signals, func() {
		select {
		case stops <- struct{}{}:
		default: // a single stop is enough
		}
	})
	defer end()
	err = top.Run(showing, top.Options{
		Settings: top.Settings{
			Every: v.Every, Sort: order, Prefix: v.Prefix, Count: !v.NoGrants, Colors: bool(g.paint()),
		},
		Node: c, In: g.in, Out: g.out, Patience: g.Timeout, Describe: describe,
		StopSelf: stopUntilContinued, Stops: stops,
	})
	return causeOf(showing, err)
}
