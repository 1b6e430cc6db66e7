package main

import (
	"context"

	"github.com/lockmesh/lockmesh"
)

// giveBack ends the work on a partition and so releases its lock.
func (s *share) giveBack() {
	s.giving = true
	close(s.stop)
}

// requestPartition waits for a partition.
func (w *worker) requestPartition(ctx context.Context, p int) {
	ctx, cancel := context.WithCancel(ctx)
	w.pending[p] = cancel
	w.tasks.Go(func() {
		lease, err := w.mesh.Lock(ctx, partKey(p))
		stopped := ctx.Err() != nil
		cancel()
		w.runInLoop(func() {
			delete(w.pending, p)
			switch {
			case err == nil:
				w.take(p, lease)
			case !stopped:
				w.err = err // Lock waits for as long as necessary, so this error is permanent
			}
		})
	})
}

// take begins the work on a newly granted partition. When several partitions are granted at once,
// the last may exceed the maximum and is given back.
func (w *worker) take(p int, lease *lockmesh.Lease) {
	_, most := w.limits()
	w.granted++
	s := &share{number: w.granted, stop: make(chan struct{})}
	if len(w.kept()) >= most {
		s.giveBack()
	}
	tooMany := s.giving
	w.held[p] = s
	w.tasks.Go(func() {
		if !tooMany {
			w.work(p, lease, s.stop)
		}
		_ = lease.Unlock(context.Background()) // never hangs, and fails only for an ending lease
		w.runInLoop(func() { delete(w.held, p) })
	})
}
