package top

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/plain"
)

// command is a request under way, of whose end a message tells.
type command = tea.Cmd

// Node is the part of [admin.Client] needed by a live view.
type Node interface {
	// Status returns the node's view of the mesh.
	Status(ctx context.Context) (*admin.Status, error)
	// LocksPage returns keys that begin with prefix, at most limit, after the key after.
	LocksPage(ctx context.Context, prefix, after string, limit int) (*admin.Locks, error)
	// Inspect returns the holders and waiters of a key.
	Inspect(ctx context.Context, key string) (*admin.Lock, error)
	// WatchPrefix returns the events of the keys that begin with prefix, until an error.
	WatchPrefix(ctx context.Context, prefix string) iter.Seq2[admin.Event, error]
}

const (
	// beatTime is how often time passes for the model: often enough for a countdown in tenths of a
	// second to look alive, and the cost of a picture is some hundred microseconds.
	beatTime = 250 * time.Millisecond

	// MinEvery is the shortest time between two looks. A look has the voters asked for all keys
	// shown, and a person reads no faster.
	MinEvery = 250 * time.Millisecond

	// listMost is how many keys are asked for: the largest page of a node.
	listMost = 1000

	// pagesMost bounds the pages of an answer: a page may be empty although more keys follow.
	pagesMost = 4

	// listTime is how long a question for keys may take. While voters are missing, the node has no
	// answer, and the screen has to go on with the voters.
	listTime = 3 * time.Second
)

// asker asks a node, as the commands of a model say.
type asker struct {
	ctx      context.Context
	node     Node
	patience time.Duration // of a look
	describe func(error) string
	tally    tally
	stopSelf func() // see Options
}

func (a *asker) beat() command {
	return tea.Tick(beatTime, func(now time.Time) tea.Msg { return beat{now} })
}

func (a *asker) look() command {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(a.ctx, a.patience)
		defer cancel()
		s, err := a.node.Status(ctx)
		return looked{at: time.Now(), status: s, why: a.why(err), seen: a.tally.take()}
	}
}

func (a *asker) list(prefix string) command {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(a.ctx, min(listTime, a.patience))
		defer cancel()
		out := listed{prefix: prefix}
		after := ""
		for range pagesMost {
			page, err := a.node.LocksPage(ctx, prefix, after, listMost-len(out.locks))
			if err != nil {
				out.why = a.why(err)
				break
			}
			out.locks = append(out.locks, page.Locks...)
			after = page.Next
			if out.more = after != ""; !out.more || len(out.locks) >= listMost {
				break
			}
		}
		out.at = time.Now()
		return out
	}
}

func (a *asker) inspect(key string) command {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(a.ctx, min(listTime, a.patience))
		defer cancel()
		l, err := a.node.Inspect(ctx, key)
		return inspected{at: time.Now(), key: key, lock: l, why: a.why(err)}
	}
}

// why is the reason of an error for the screen; empty without an error.
func (a *asker) why(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return "the node doesn't answer"
	}
	return plain.Safe(a.describe(err))
}

// follow counts the grants of the keys that begin with prefix until the asker's context ends, and
// begins a new watch after an error. The caller waits for the group.
func (a *asker) follow(group *sync.WaitGroup, prefix string) {
	group.Go(func() {
		for tries := 0; a.ctx.Err() == nil; tries++ {
			for e, err := range a.node.WatchPrefix(a.ctx, prefix) {
				if err != nil {
					a.tally.ended(a.why(err))
					break
				}
				if e.Kind == "synced" {
					tries = 0
				}
				a.tally.event(e.Kind, e.Key, e.Current)
			}
			select {
			case <-a.ctx.Done():
			case <-time.After(backoff(time.Second, tries)):
			}
		}
	})
}

// backoffMost is the longest time between two tries to reach a node: as long as a person at the
// screen waits after a restart without a doubt.
const backoffMost = 3 * time.Second

// backoff is the time before the next try after some failed tries: every, and then twice as long
// each time.
func backoff(every time.Duration, tries int) time.Duration {
	d := every
	for range tries {
		if d *= 2; d >= backoffMost {
			return max(every, backoffMost)
		}
	}
	return d
}
