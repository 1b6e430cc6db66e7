package main

import (
	"context"

	"github.com/lockmesh/lockmesh"
)

// give has the work on a partition end, and the partition be given back.
func (s *share) give() {
	s.giving = true
	close(s.enough)
}

// ask waits for a partition.
func (w *worker) ask(ctx context.Context, p int) {
	ctx, cancel := context.WithCancel(ctx)
	w.asking[p] = cancel
	w.tasks.Go(func() {
		lease, err := w.mesh.Lock(ctx, partKey(p))
		stopped := ctx.Err() != nil
		cancel()
		w.post(func() {
			delete(w.asking, p)
			switch {
			case err == nil:
				w.take(p, lease)
			case !stopped:
				w.err = err // it waits for as long as it takes, so this is nothing that passes
			}
		})
	})
}

// take begins the work on a partition that has just been granted. When several are granted at once it may be one too many, and is given back.
func (w *worker) take(p int, lease *lockmesh.Lease) {
	_, most := w.limits()
	w.granted++
	s := &share{number: w.granted, enough: make(chan struct{})}
	if len(w.kept()) >= most {
		s.give()
	}
	tooMany := s.giving
	w.held[p] = s
	w.tasks.Go(func() {
		if !tooMany {
			w.work(p, lease, s.enough)
		}
		_ = lease.Unlock(context.Background()) // never hangs, and fails only when the lease is at its end anyway
		w.post(func() { delete(w.held, p) })
	})
}
