package lockmesh

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
)

// view is the state of a key as shown by a watch: the holders of the key. The owner of the view
// feeds it the watch's events.
type view struct {
	watch     *Watch
	stop      context.CancelFunc
	held      map[uint64]Event // by token
	confirmed map[uint64]bool  // confirmed: held according to a majority of the voters
	synced    bool             // false while the state is still under way
}

// view begins to watch a key.
func (m *Mesh) view(ctx context.Context, op, key string) (*view, error) {
	ctx, stop := context.WithCancel(ctx)
	err := checkKey("watch", key)
	var w *Watch
	if err == nil {
		w, err = m.watch(ctx, &Watch{sub: engine.Subscriber{Topic: engine.Topic{Key: vote.Key(key)}}, wantsConfirmed: true})
	}
	if err != nil {
		stop()
		return nil, withOp(err, op)
	}
	return &view{watch: w, stop: stop, held: make(map[uint64]Event), confirmed: make(map[uint64]bool)}, nil
}

// apply applies an event.
func (v *view) apply(e Event) {
	switch e.Kind {
	case EventGap:
		clear(v.held)
		clear(v.confirmed)
		v.synced = false
	case EventSynced:
		v.synced = true
	case EventGranted, EventChanged:
		delete(v.held, e.Previous)
		v.held[e.Token] = e
	case eventConfirmed:
		v.confirmed[e.Token] = true
	case EventReleased, EventLost:
		delete(v.held, e.Token)
		delete(v.confirmed, e.Token)
	}
}

// wait applies events for the duration d.
func (v *view) wait(ctx context.Context, lease *Lease, d time.Duration) error {
	over := make(chan struct{}, 1)
	defer v.watch.mesh.eng.Clocks().After(d, func() { wakeup.Send(over) })()
	return v.applyUntil(ctx, lease, over, func() bool { return false })
}

// permits returns the held permits of a semaphore, in the order of their tokens.
func (v *view) permits() []Event {
	var all []Event
	for _, e := range v.held {
		if e.Mode == ModePermit {
			all = append(all, e)
		}
	}
	// The difference of two tokens doesn't fit a 32-bit int.
	slices.SortFunc(all, func(a, b Event) int { return cmp.Compare(a.Token, b.Token) })
	return all
}

// waitUntil applies events until enough returns true, or ctx, the lease (if not nil) or the watch
// ends.
func (v *view) waitUntil(ctx context.Context, lease *Lease, enough func() bool) error {
	return v.applyUntil(ctx, lease, nil, enough)
}

func (v *view) applyUntil(ctx context.Context, lease *Lease, wake <-chan struct{}, enough func() bool) error {
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
				if lease != nil && lease.Err() != nil { // its end may have stopped the view
					return lease.Err()
				}
				return v.watch.Err()
			}
			v.apply(e)
		case <-over:
			return lease.Err()
		case <-wake:
			return nil
		case <-ctx.Done():
			return errs.OfContext(ctx)
		}
	}
}

// inVain returns the text and the reason for the error of a call that has waited for the view until
// the end of the call's context. known describes the state of the key, which is known only while a
// majority of the voters reports it.
func (v *view) inVain(known string) (text string, reason error) {
	voters, ready := v.watch.mesh.eng.DescribeVoters()
	if v.synced && ready {
		return known, nil
	}
	return joinTexts("no majority of the voters reports the state of the key", voters), ErrNoQuorum
}

// uniqueValue returns a unique value for a lease, by which a call recognizes its own lease.
func (m *Mesh) uniqueValue() []byte {
	mark := binary.BigEndian.AppendUint64([]byte("#"), uint64(m.eng.Self().Incarnation))
	return binary.BigEndian.AppendUint64(mark, m.uniqueValues.Add(1))
}
