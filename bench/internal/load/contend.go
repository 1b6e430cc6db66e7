package load

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/peer"
)

// ContendArgs say how many callers of this node want the same key repeatedly. Callers on other
// nodes may want the key as well.
type ContendArgs struct {
	Name    string
	Node    int    // the number of this node
	Board   string // the path of the board shared by the nodes; empty if this node is alone
	Callers int
	Start   time.Time // the start of the measurement, so that all nodes count at the same time
	For     time.Duration
}

// Contention is the result of contending.
type Contention struct {
	Counts []float64 // how often each caller of this node had the key
	// Longest is the longest wait of any caller; a caller still waiting at the end has waited until
	// then.
	Longest time.Duration
}

// Contend lets the callers contend, and measures.
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
	// At the end some callers still wait, and give up. A caller that has the key by then releases
	// the key regardless of the canceled wait. The wait has no deadline: a deadline would travel to
	// the servers, and a server might report its expiry before the deadline has passed here.
	waiting, enough := context.WithCancel(ctx)
	defer enough()
	defer time.AfterFunc(time.Until(end), enough).Stop()
	counts, longest := make([]paddedCounter, a.Callers), make([]time.Duration, a.Callers)
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

func contend(ctx, waiting context.Context, n peer.Node, board *Board, a ContendArgs, end time.Time, count *paddedCounter) (longest time.Duration, err error) {
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

// owners returns a node for each caller: the same node, unless its callers wouldn't exclude each
// other. done closes the nodes made by owners.
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
