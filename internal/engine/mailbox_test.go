package engine

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/transport"
)

// drop puts a message of a peer into the mailbox.
func drop(b *mailbox, k vote.Kind, n int) {
	batch := transport.NewBatch()
	*batch.Add() = vote.Message{Kind: k, Number: vote.Number(n)}
	b.putMessages(k.Urgent(), input{batch: batch})
}

func TestEachLaneKeepsItsOrder(t *testing.T) {
	b := newMailbox()
	for i := range 5 {
		drop(b, vote.KindRequest, i)
		drop(b, vote.KindRefresh, i)
	}
	for name, lane := range map[string][]input{"urgent": b.take(true, nil), "ordered": b.take(false, nil)} {
		if len(lane) != 5 {
			t.Fatalf("%s has %d", name, len(lane))
		}
		for i, in := range lane {
			if in.batch.Messages[0].Number != vote.Number(i) || in.batch.Messages[0].Kind.Urgent() != (name == "urgent") {
				t.Errorf("%s has %v of %d at %d", name, in.batch.Messages[0].Kind, in.batch.Messages[0].Number, i)
			}
		}
	}
	if b.take(true, nil) != nil || b.take(false, nil) != nil {
		t.Error("taken twice")
	}
}

func TestAFullLaneHoldsItsReadersBackAndNoOthers(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(*mailbox)
	}{
		{"until the loop takes", func(b *mailbox) { b.take(false, nil) }},
		{"until the box is closed", func(b *mailbox) { b.close() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newMailbox()
				for i := range LaneMax {
					drop(b, vote.KindRequest, i)
				}
				through := make(chan struct{})
				go func() {
					drop(b, vote.KindRequest, LaneMax)
					close(through)
				}()
				drop(b, vote.KindRefresh, 1)           // a lane of its own
				if !b.post(false, func(vote.Now) {}) { // never waits
					t.Error("turned away")
				}
				synctest.Wait()
				select {
				case <-through:
					t.Error("the reader wasn't held back")
				default:
				}
				end.do(b)
				<-through
			})
		})
	}
}

func TestCallsAreTurnedAwayWhenTooManyWait(t *testing.T) {
	b := newMailbox()
	for range callsMax {
		if err := b.putCall(func(vote.Now) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.putCall(nil); !errors.Is(err, errs.Busy) {
		t.Errorf("%v", err)
	}
	b.take(false, nil)
	if err := b.putCall(func(vote.Now) {}); err != nil {
		t.Error(err)
	}
	b.close()
	if err := b.putCall(nil); !errors.Is(err, errs.Closed) {
		t.Errorf("%v", err)
	}
	if b.post(true, nil) || b.take(false, nil) != nil || b.take(true, nil) != nil {
		t.Error("a closed box takes things in")
	}
}

func TestAllThatIsUrgentIsTakenInAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, _, _ := w.three()
		const crowd = 4 * batchMax
		seen := 0
		a.loop.box.post(false, func(vote.Now) {
			for range crowd {
				a.loop.box.post(true, func(vote.Now) { seen++ })
			}
		})
		synctest.Wait()
		got := make(chan int, 1)
		a.loop.box.post(false, func(vote.Now) { got <- seen })
		if n := <-got; n != crowd {
			t.Errorf("%d of %d were taken in", n, crowd)
		}
	})
}
