package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// waitVerb waits for a condition.
type waitVerb struct {
	Ready   bool      `xor:"condition" required:"" help:"Wait until locks can be granted."`
	Settled bool      `xor:"condition" required:"" help:"Wait until another node may be restarted: the node's own votes count, no voter is quiet, the voters don't change, and one more voter may stop."`
	Free    string    `xor:"condition" required:"" placeholder:"KEY" help:"Wait until no node holds KEY or waits for KEY."`
	Wait    *waitTime `short:"w" placeholder:"TIME" help:"Wait no longer than TIME, such as 5m or 30. Without -w, wait for as long as it takes."`
}

// Help implements [kong.HelpProvider].
func (*waitVerb) Help() string {
	return `Waits for one condition. The exit code is 0 when the condition holds, 75 when the wait of -w is over,
and 69 when no node answers for the time of --timeout; a node that restarts within that time is
waited for. -w 0 only asks. A terminal is shown what is missing. With -o json the voters are printed,
as GET /v1/ready answers, or for --free the key.

The condition holds for the moment only: to do work while no other node holds a key, use run.

Examples:
  lockmesh wait --settled -w 5m      between the restarts of two nodes
  lockmesh wait --free nightly && ./after-the-nightly-job`
}

const (
	// askTime is how long the node waits at most before the node says that a condition doesn't hold
	// yet: shorter than the idle timeouts of common proxies.
	askTime = 20 * time.Second

	// awayPause is the pause between two tries to reach a silent node.
	awayPause = 100 * time.Millisecond
)

// Run runs the verb.
func (v *waitVerb) Run(ctx context.Context, g *globals) error {
	w := &wait{g: g, what: "locks to be granted", from: time.Now(), seen: time.Now()}
	await := func(ctx context.Context, c *admin.Client) (any, string, error) {
		return w.voters(ctx, c.Ready, "locks can be granted")
	}
	switch {
	case v.Settled:
		w.what = "the mesh to settle"
		await = func(ctx context.Context, c *admin.Client) (any, string, error) {
			return w.voters(ctx, c.Settled, "the mesh is settled")
		}
	case v.Free != "":
		w.what = safe(v.Free) + " to be free"
		await = func(ctx context.Context, c *admin.Client) (any, string, error) {
			return w.key(ctx, c, v.Free)
		}
	}
	if v.Wait != nil {
		if *v.Wait < 0 {
			return usage("-w %v: a wait is not negative", time.Duration(*v.Wait))
		}
		w.until = w.from.Add(time.Duration(*v.Wait))
	}
	g.unready = true
	return g.act(ctx, 0, func(ctx context.Context, c *admin.Client) error {
		defer w.clear()
		for {
			done, text, err := w.try(ctx, c, await)
			if err != nil {
				return err
			}
			if done != nil {
				w.clear()
				return w.tell(done, text)
			}
		}
	})
}

// wait is a wait under way.
type wait struct {
	g     *globals
	what  string    // completes "waiting for …"
	from  time.Time // when the wait has begun
	until time.Time // when the wait is over; zero without an end
	seen  time.Time // when the node has answered last
	why   string    // the unmet condition, from the node's last answer
	shown bool      // the terminal shows a line about the wait
}

// try awaits the condition until an error, and outlasts errors after which the node may be back.
// Without a result and an error, the caller tries again.
func (w *wait) try(ctx context.Context, c *admin.Client, await func(context.Context, *admin.Client) (any, string, error)) (any, string, error) {
	done, text, err := await(ctx, c)
	if err == nil || ctx.Err() != nil || !isAway(err) {
		return done, text, err
	}
	why := describe(err)
	switch {
	case errors.Is(err, lockmesh.ErrNoQuorum):
		w.seen = time.Now()
	case errors.Is(err, context.DeadlineExceeded):
		why = "the node doesn't answer"
	}
	switch {
	case w.isOver():
		return nil, "", w.over(why)
	case time.Since(w.seen) > w.g.Timeout:
		return nil, "", err
	}
	w.say(why)
	return nil, "", rest(ctx, w.most(awayPause))
}

// voters awaits a condition of the voters.
func (w *wait) voters(ctx context.Context, ask func(context.Context, time.Duration) (*admin.Electorate, error), text string) (any, string, error) {
	for {
		e, err := w.ask(ctx, ask)
		switch {
		case err == nil:
			return e, text, nil
		case errors.Is(err, lockmesh.ErrClosed) || !errors.Is(err, lockmesh.ErrNoQuorum):
			return nil, "", err
		case w.isOver():
			return nil, "", w.over(reasonOf(err))
		}
		w.seen = time.Now()
		w.say(reasonOf(err))
	}
}

// ask asks the node once. The node answers when the condition holds, or else soon enough for a
// terminal or a proxy.
func (w *wait) ask(ctx context.Context, ask func(context.Context, time.Duration) (*admin.Electorate, error)) (*admin.Electorate, error) {
	long := askTime
	switch {
	case w.isWatched() && w.shown:
		long = lookPause
	case w.isWatched() || w.g.Verbose && w.why == "":
		long = quietWait
	}
	long = w.most(long)
	ctx, cancel := context.WithTimeout(ctx, long+answerTime)
	defer cancel()
	return ask(ctx, long)
}

// most returns a length for a part of the wait, bounded by the time left.
func (w *wait) most(long time.Duration) time.Duration {
	if w.until.IsZero() {
		return long
	}
	return min(long, max(0, time.Until(w.until)))
}

func (w *wait) isOver() bool { return !w.until.IsZero() && !time.Now().Before(w.until) }

// over is the error at the end of the wait.
func (w *wait) over(why string) error {
	return &exit{code: exitHeld, err: fmt.Errorf("the wait of %v for %s is over: %s", roundTime(w.until.Sub(w.from)), w.what, why)}
}

// isWatched reports whether a person watches the wait.
func (w *wait) isWatched() bool { return w.g.Output == "text" && isScreen(w.g.err) }

// say shows the unmet condition on a terminal.
func (w *wait) say(why string) {
	if why != w.why {
		w.g.verbosef("waiting for %s: %s", w.what, why)
	}
	w.why = why
	if !w.isWatched() || w.g.Verbose || time.Since(w.from) < quietWait {
		return
	}
	w.g.showLine(fmt.Sprintf("waiting for %s for %v: %s", w.what, roundTime(time.Since(w.from)), why))
	w.shown = true
}

// clear takes the line about the wait from the terminal.
func (w *wait) clear() {
	if w.shown {
		_, _ = fmt.Fprint(w.g.err, clearLine)
		w.shown = false
	}
}

// tell prints the result: text for a person, JSON for a program on request, and else nothing.
func (w *wait) tell(done any, text string) error {
	if w.g.Output == "text" && !isTerminal(w.g.out) {
		return nil
	}
	return w.g.print(done, func(out io.Writer) { _, _ = fmt.Fprintln(out, w.g.paint().good(text)) })
}
