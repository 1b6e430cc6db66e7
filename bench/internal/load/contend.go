package load

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/peer"
)

// ContendArgs say how many callers of this node want one key, again and again. Callers on other nodes may want it as well.
type ContendArgs struct {
	Name    string
	Node    int    // this one's number
	Board   string // where the board is that the nodes share; empty if there is but this node
	Callers int
	Start   time.Time // from when on it counts, so that all nodes count at the same time
	For     time.Duration
}

// Contention is what came of it.
type Contention struct {
	Counts  []float64     // how often each caller of this node had the key
	Longest time.Duration // that any of them waited for it; one who still waits at the end has waited until then
}

// Contend measures.
func Contend(ctx context.Context, n peer.Node, a ContendArgs) (c Contention, err error) {
	board := NewBoard()
	if a.Board != "" {
		if board, err = OpenBoard(a.Board); err != nil {
			return c, err
		}
	}
	defer func() { _ = board.Close() }()
	nodes, done, err := owners(ctx, n, a.Callers)
	defer done()
	if err != nil {
		return c, err
	}
	end := a.Start.Add(a.For)
	// At the end callers still wait, and give up. Who has the key by then gives it back, whatever becomes of the waiting.
	// It isn't a deadline: that would go along to servers, and one that keeps it may say so before it has passed here.
	waiting, enough := context.WithCancel(ctx)
	defer enough()
	defer time.AfterFunc(time.Until(end), enough).Stop()
	counts, longest := make([]tally, a.Callers), make([]time.Duration, a.Callers)
	errs := make(chan error, a.Callers)
	var callers sync.WaitGroup
	for i := range a.Callers {
		callers.Go(func() {
			var err error
			if longest[i], err = contend(ctx, waiting, nodes[i], board, a, end, &counts[i]); err != nil {
				errs <- err
				enough()
			}
		})
	}
	callers.Wait()
	select {
	case err = <-errs:
		return c, err
	default:
	}
	for i := range counts {
		c.Counts = append(c.Counts, float64(counts[i].n.Load()))
	}
	c.Longest = slices.Max(longest)
	if a.Board == "" {
		err = board.Check()
	}
	return c, err
}

func contend(ctx, waiting context.Context, n peer.Node, board *Board, a ContendArgs, end time.Time, count *tally) (longest time.Duration, err error) {
	key := Key(a.Name, 0)
	for waiting.Err() == nil {
		asked := time.Now()
		unlock, token, err := n.Lock(waiting, key)
		now := time.Now()
		if now.After(a.Start) {
			longest = max(longest, now.Sub(asked))
		}
		if err != nil {
			if waiting.Err() != nil {
				return longest, nil //nolint:nilerr // the time is up, and that is what ended the wait
			}
			return 0, err
		}
		counts := now.After(a.Start) && now.Before(end)
		board.Hold(a.Node, token, counts)
		if counts {
			count.n.Add(1)
		}
		board.Free()
		if err := unlock(ctx); err != nil {
			return 0, err
		}
	}
	return longest, nil
}

// owners returns a node for each caller: the same one, unless its callers wouldn't exclude one another. done ends those that it has made.
func owners(ctx context.Context, n peer.Node, callers int) (nodes []peer.Node, done func(), err error) {
	made := []peer.Node{}
	done = func() {
		for _, o := range made {
			_ = o.Close()
		}
	}
	for range callers {
		own := n
		if o, ok := n.(peer.Owners); ok {
			if own, err = o.Owner(ctx); err != nil {
				return nil, done, err
			}
			made = append(made, own)
		}
		nodes = append(nodes, own)
	}
	return nodes, done, nil
}
