package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/lockmesh"
)

// Every worker holds membersKey as a reader, and the value of that lease says whether the worker is
// in need. A crashed worker is no longer a holder once its lease has ended, and by then its
// partitions are free, too.
const (
	membersKey = "shards/members"
	inNeed     = "in need"
	content    = "content"
)

// membership is what a worker knows of all workers.
type membership struct {
	members      int // the number of workers, including this worker; zero until known
	othersInNeed bool
}

// joinPool makes this node a worker known to the others, until ctx ends.
func (w *worker) joinPool(ctx context.Context) {
	need := true
	for ctx.Err() == nil {
		lease, err := w.mesh.RLock(ctx, membersKey, lockmesh.WithValue(encodeNeed(need)))
		if err == nil {
			err = w.follow(ctx, lease, &need)
			_ = lease.Unlock(context.Background()) // fails only for an ending lease
		}
		if err != nil && ctx.Err() == nil {
			w.runInLoop(func() { w.err = fmt.Errorf("can't be a worker: %w", err) })
			return
		}
	}
}

func encodeNeed(need bool) []byte {
	if need {
		return []byte(inNeed)
	}
	return []byte(content)
}

// follow tells run who the workers are, and tells the others whether this worker is in need, as
// long as its membership lease lasts.
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
			case e.Kind == lockmesh.EventGranted, e.Kind == lockmesh.EventChanged:
				seen[e.Token] = e
			case e.Kind == lockmesh.EventReleased, e.Kind == lockmesh.EventLost:
				delete(seen, e.Token)
			case e.Kind == lockmesh.EventGap:
				clear(seen)
				synced = false
			case e.Kind == lockmesh.EventSynced:
				synced = true
			}
			if synced {
				c := w.count(seen)
				w.runInLoop(func() { w.membership = c })
			}
		case *need = <-w.needUpdates:
			if err := lease.SetValue(ctx, encodeNeed(*need)); err != nil && !errors.Is(err, lockmesh.ErrLost) {
				return err
			}
		case <-lease.Done():
			return nil
		}
	}
}

// count derives the crew from the holders of membersKey.
func (w *worker) count(holders map[uint64]lockmesh.Event) membership {
	c := membership{members: max(len(holders), 1)}
	for _, h := range holders {
		if h.Node != w.mesh.Name() && string(h.Value) == inNeed {
			c.othersInNeed = true
		}
	}
	return c
}
