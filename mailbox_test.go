package lockmesh

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func letter(k vote.Kind, n int) input {
	return input{msg: &vote.Message{Kind: k, Number: vote.Number(n)}}
}

func TestEachLaneKeepsItsOrder(t *testing.T) {
	b := newMailbox()
	for i := range 5 {
		b.message(letter(vote.KindRequest, i))
		b.message(letter(vote.KindRefresh, i))
	}
	for name, lane := range map[string][]input{"urgent": b.takeUrgent(nil), "ordered": b.takeOrdered(nil)} {
		if len(lane) != 5 {
			t.Fatalf("%s has %d", name, len(lane))
		}
		for i, in := range lane {
			if in.msg.Number != vote.Number(i) || in.msg.Kind.Urgent() != (name == "urgent") {
				t.Errorf("%s has %v of %d at %d", name, in.msg.Kind, in.msg.Number, i)
			}
		}
	}
	if b.takeUrgent(nil) != nil || b.takeOrdered(nil) != nil {
		t.Error("taken twice")
	}
}

func TestAFullLaneHoldsItsReadersBackAndNoOthers(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(*mailbox)
	}{
		{"until the loop takes", func(b *mailbox) { b.takeOrdered(nil) }},
		{"until the box is closed", (*mailbox).close},
	} {
		t.Run(end.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newMailbox()
				for i := range laneMax {
					b.message(letter(vote.KindRequest, i))
				}
				through := make(chan struct{})
				go func() {
					b.message(letter(vote.KindRequest, laneMax))
					close(through)
				}()
				b.message(letter(vote.KindRefresh, 1)) // a lane of its own
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
		if err := b.call(func(vote.Now) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.call(nil); !errors.Is(err, ErrBusy) {
		t.Errorf("%v", err)
	}
	b.takeOrdered(nil)
	if err := b.call(func(vote.Now) {}); err != nil {
		t.Error(err)
	}
	b.close()
	if err := b.call(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	if b.post(true, nil) || b.takeOrdered(nil) != nil || b.takeUrgent(nil) != nil {
		t.Error("a closed box takes things in")
	}
}
