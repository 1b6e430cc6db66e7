package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/lockmesh"
)

// Every worker holds membersKey as a reader, and the value of that lease says whether it is in need. Who dies is no longer among the holders when its lease
// has ended, which is when its partitions are free, too.
const (
	membersKey = "shards/members"
	inNeed     = "in need"
	content    = "content"
)

// crew is what a worker knows of all workers.
type crew struct {
	members      int // how many there are, this one among them; zero before it is known
	othersInNeed bool
}

// belong makes this node a worker that the others count, until ctx ends.
func (w *worker) belong(ctx context.Context) {
	need := true
	for ctx.Err() == nil {
		lease, err := w.mesh.RLock(ctx, membersKey, lockmesh.WithValue(word(need)))
		if err == nil {
			err = w.follow(ctx, lease, &need)
			_ = lease.Unlock(context.Background()) // it fails only when the lease is at its end anyway
		}
		if err != nil && ctx.Err() == nil {
			w.post(func() { w.err = fmt.Errorf("can't be a worker: %w", err) })
			return
		}
	}
}

func word(need bool) []byte {
	if need {
		return []byte(inNeed)
	}
	return []byte(content)
}

// follow tells run who the workers are, and the others whether this one is in need, as long as the lease lasts that makes it one of them.
func (w *worker) follow(ctx context.Context, lease *lockmesh.Lease, need *bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := w.mesh.Watch(ctx, membersKey)
	if err != nil {
		return err
	}
	seen, synced := make(map[uint64]lockmesh.Event), false // by token
	for {
		select {
		case e, more := <-watch.Events():
			switch {
			case !more:
				return watch.Err()
			case e.Kind == lockmesh.Granted, e.Kind == lockmesh.Changed:
				seen[e.Token] = e
			case e.Kind == lockmesh.Released, e.Kind == lockmesh.Lost:
				delete(seen, e.Token)
			case e.Kind == lockmesh.Gap:
				clear(seen)
				synced = false
			case e.Kind == lockmesh.Synced:
				synced = true
			}
			if synced {
				c := w.count(seen)
				w.post(func() { w.crew = c })
			}
		case *need = <-w.profess:
			if err := lease.SetValue(ctx, word(*need)); err != nil && !errors.Is(err, lockmesh.ErrLost) {
				return err
			}
		case <-lease.Done():
			return nil
		}
	}
}

// count says what follows from those who hold the members key.
func (w *worker) count(holders map[uint64]lockmesh.Event) crew {
	c := crew{members: max(len(holders), 1)}
	for _, h := range holders {
		if h.Node != w.mesh.Name() && string(h.Value) == inNeed {
			c.othersInNeed = true
		}
	}
	return c
}
