package lockmesh

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// view is what a watch has shown of a key: who holds it. Its owner takes in events one by one.
type view struct {
	watch  *Watch
	stop   context.CancelFunc
	held   map[uint64]Event // by token
	firm   map[uint64]bool  // of which a majority of the voters has said that they are held
	synced bool             // else it is about to be told
}

// view begins to watch a key.
func (m *Mesh) view(ctx context.Context, op, key string) (*view, error) {
	ctx, stop := context.WithCancel(ctx)
	err := checkKey("watch", key)
	var w *Watch
	if err == nil {
		w, err = m.watch(ctx, &Watch{key: key, firm: true})
	}
	if err != nil {
		stop()
		return nil, withOp(err, op)
	}
	return &view{watch: w, stop: stop, held: make(map[uint64]Event), firm: make(map[uint64]bool)}, nil
}

// take takes in one event.
func (v *view) take(e Event) {
	switch e.Kind {
	case Gap:
		clear(v.held)
		clear(v.firm)
		v.synced = false
	case Synced:
		v.synced = true
	case Granted, Changed:
		delete(v.held, e.Was)
		v.held[e.Token] = e
	case firm:
		v.firm[e.Token] = true
	case Released, Lost:
		delete(v.held, e.Token)
		delete(v.firm, e.Token)
	}
}

// wait takes in events for a while.
func (v *view) wait(ctx context.Context, lease *Lease, d time.Duration) error {
	over := make(chan struct{}, 1)
	defer v.watch.mesh.clocks.after(d, func() { kick(over) })()
	return v.takeAll(ctx, lease, over, func() bool { return false })
}

// permits returns those of a semaphore that are held, in order of their tokens.
func (v *view) permits() []Event {
	var all []Event
	for _, e := range v.held {
		if e.Mode == Permit {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Event) int { return cmp.Compare(a.Token, b.Token) }) // the difference of two tokens fits no int of 32 bits
	return all
}

// until takes in events until the view satisfies enough, or ctx, the lease (if there is one) or the watch ends.
func (v *view) until(ctx context.Context, lease *Lease, enough func() bool) error {
	return v.takeAll(ctx, lease, nil, enough)
}

func (v *view) takeAll(ctx context.Context, lease *Lease, wake <-chan struct{}, enough func() bool) error {
	var over <-chan struct{}
	if lease != nil {
		over = lease.Done()
	}
	for {
		if v.synced && enough() {
			return nil
		}
		select {
		case e, ok := <-v.watch.Events():
			if !ok {
				return v.watch.Err()
			}
			v.take(e)
		case <-over:
			return lease.Err()
		case <-wake:
			return nil
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// mark returns a value that no other lease has, by which a call knows its own.
func (m *Mesh) mark() []byte {
	mark := binary.BigEndian.AppendUint64([]byte("#"), uint64(m.self.Life))
	return binary.BigEndian.AppendUint64(mark, m.marks.Add(1))
}

// spawn starts a goroutine of the mesh, which Close waits for.
func (m *Mesh) spawn(f func()) error {
	started := make(chan struct{})
	err := m.loop.box.call(func(vote.Now) {
		m.work.Go(f)
		close(started)
	})
	if err != nil {
		return err
	}
	select {
	case <-started:
		return nil
	case <-m.loop.done:
		return ErrClosed
	}
}
