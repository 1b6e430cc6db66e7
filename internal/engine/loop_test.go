package engine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/transport"
)

// All waiting inputs are taken in, in order, however many: by the loop's goroutine, and by a
// caller's goroutine, which leaves the excess to the loop's.
func TestACrowdOfInputsIsTakenInToTheLast(t *testing.T) {
	const many = 3*roundsMax*batchMax + 1
	for _, row := range []struct {
		name  string
		start func(t *testing.T, l *loop) (goOn func())
	}{
		{"by the loop's goroutine", func(_ *testing.T, l *loop) func() {
			hold := make(chan struct{})
			l.box.post(false, func(vote.Now) { <-hold })
			synctest.Wait()
			return func() { close(hold) }
		}},
		{"by a caller's", func(t *testing.T, l *loop) func() {
			takeTurn(t, l.box)
			return l.runAsOwner
		}},
	} {
		for _, n := range []int{batchMax, batchMax + 1, 3 * batchMax, many} {
			t.Run(row.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *mesh) {
					l := w.alone().loop
					goOn := row.start(t, l)
					var urgent, ordered []int
					for i := range n {
						l.box.post(true, func(vote.Now) { urgent = append(urgent, i) })
						l.box.post(false, func(vote.Now) { ordered = append(ordered, i) })
					}
					goOn()
					synctest.Wait()
					for lane, got := range map[string][]int{"urgent": urgent, "ordered": ordered} {
						if len(got) != n || !slices.IsSorted(got) {
							t.Errorf("%s: %d of %d were taken in, sorted %v", lane, len(got), n, slices.IsSorted(got))
						}
					}
				})
			})
		}
	}
}

// Urgent inputs are looked for between the batches of ordinary inputs.
func TestUrgentInputsOvertakeABacklog(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		l := w.alone().loop
		takeTurn(t, l.box)
		const many = 4 * batchMax
		fed, when := 0, 0
		for i := range many {
			l.box.post(false, func(vote.Now) {
				if fed++; i == 0 {
					l.box.post(true, func(vote.Now) { when = fed })
				}
			})
		}
		l.runAsOwner()
		synctest.Wait()
		if fed != many || when > batchMax {
			t.Errorf("%d of %d were fed, and %d before the urgent one", fed, many, when)
		}
	})
}

// twoKinds returns a batch with an urgent message for each 'u', and an ordered message for each
// 'o', numbered from 1.
func twoKinds(kinds string) *transport.Batch {
	b := transport.NewBatch()
	for i, k := range kinds {
		m := b.Add()
		m.Kind, m.Number = vote.KindRequest, vote.Number(i+1)
		if k == 'u' {
			m.Kind = vote.KindRefresh
		}
	}
	return b
}

func TestABatchOfBothKindsIsSplitAndKeepsItsOrder(t *testing.T) {
	for _, row := range []struct {
		kinds           string
		urgent, ordered []vote.Number
	}{
		{"u", []vote.Number{1}, nil},
		{"o", nil, []vote.Number{1}},
		{"uuu", []vote.Number{1, 2, 3}, nil},
		{"ooo", nil, []vote.Number{1, 2, 3}},
		{"uo", []vote.Number{1}, []vote.Number{2}},
		{"ouoouo", []vote.Number{2, 5}, []vote.Number{1, 3, 4, 6}},
	} {
		l := &loop{box: newMailbox()} // owned by the loop's goroutine, which never runs here
		l.receive(7, vote.SessionID{Node: "x"}, twoKinds(row.kinds))
		for urgent, want := range map[bool][]vote.Number{true: row.urgent, false: row.ordered} {
			var got []vote.Number
			for _, in := range l.box.take(urgent, nil) {
				if in.conn != 7 || in.from.Node != "x" {
					t.Errorf("%s: it came from %v of %v", row.kinds, in.conn, in.from)
				}
				for _, m := range in.batch.Messages {
					if got = append(got, m.Number); m.Kind.Urgent() != urgent {
						t.Errorf("%s: %v is in the wrong lane", row.kinds, m.Kind)
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: urgent %v: %v, want %v", row.kinds, urgent, got, want)
			}
		}
	}
}

// A call may arrive as the mesh is closed, when the loop's goroutine is about to end. The call is
// answered nonetheless.
func TestACallThatIsNotFedAnyMoreIsAnswered(t *testing.T) {
	for name, ctx := range map[string]func(t *testing.T) context.Context{
		"a context that can't end": func(*testing.T) context.Context { return context.Background() },
		"a context that can":       func(t *testing.T) context.Context { return t.Context() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *mesh) {
				a := w.alone()
				answers := make(chan error, 2)
				call := func(key string) {
					_, err := lock(ctx(t), a, key)
					answers <- err
				}
				lease := mustLock(t, a, "held", vote.Exclusive)
				unlocked := make(chan error, 1)
				go call("held") // this call is taken in
				synctest.Wait()
				takeTurn(t, a.loop.box)
				go call("k") // this call isn't
				go func() { unlocked <- unlock(ctx(t), lease) }()
				synctest.Wait()
				closed := make(chan error, 1)
				go func() { closed <- a.Close() }()
				synctest.Wait()
				if len(answers)+len(unlocked) != 0 {
					t.Error("something was answered while a caller owned the loop")
				}
				a.loop.box.handOver()
				for range 2 {
					wantIs(t, <-answers, errs.Closed)
				}
				wantIs(t, <-unlocked, errs.Closed)
				wantIs(t, lease.Err(), errs.Released)
				if err := <-closed; err != nil {
					t.Error(err)
				}
				_, err := lock(ctx(t), a, "k")
				wantIs(t, err, errs.Closed)
			})
		})
	}
}

// A call taken in as part of a crowd, and still in the backlog, is answered at the end, too.
func TestACallInTheBacklogIsAnsweredAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a := w.alone()
		takeTurn(t, a.loop.box)
		for range batchMax {
			a.loop.box.post(false, func(vote.Now) {})
		}
		got := make(chan error, 1)
		go func() {
			_, err := lock(context.Background(), a, "k")
			got <- err
		}()
		synctest.Wait()
		a.loop.roundAndFlush()
		if len(a.loop.backlog) == 0 || len(got) != 0 {
			t.Fatal("the call isn't in the backlog")
		}
		closed := make(chan error, 1)
		go func() { closed <- a.Close() }()
		synctest.Wait()
		a.loop.box.handOver()
		wantIs(t, <-got, errs.Closed)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// An Unlock waits for voters that don't answer. The wait ends when the mesh is closed, even if the
// context never ends.
func TestAnUnlockUnderWayEndsWithTheMesh(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, _, _ := w.three()
		lease := mustLock(t, a, "k", vote.Exclusive)
		w.stall("a", true)
		got := make(chan error, 1)
		go func() { got <- unlock(context.Background(), lease) }()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("it didn't wait")
		}
		began := time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		err := <-got
		wantIs(t, err, errs.Closed)
		if took := time.Since(began); took != 0 {
			t.Errorf("it waited for another %v", took)
		}
		wantIs(t, lease.Err(), errs.Released)
	})
}

// The application may recover from panics of its own code. A fault of the loop ends the process
// nevertheless, whichever goroutine runs the loop.
func TestAFaultOfTheLoopEndsTheProcessUnderAnyOwner(t *testing.T) {
	const inside = "LOCKMESH_TEST_FAULT"
	if os.Getenv(inside) != "" {
		defer func() { _ = recover() }()
		(&loop{}).runAsOwner() // lacks everything a loop needs
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=30s")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !bytes.Contains(out, []byte("panic: lockmesh: ")) || !bytes.Contains(out, []byte("loop.go")) {
		t.Errorf("the process ended with %v:\n%.2000s", err, out)
	}
}

// A new connection is reported by the urgent lane, and its end by the ordered lane. Inputs that
// arrive while a round begins mustn't be swapped, since the node would go on with a dead
// connection. The test needs two processors to show a fault.
func TestWhatIsUrgentIsNeverOvertaken(t *testing.T) {
	sampled.Computes(t)
	inBubble(t, func(t *testing.T, w *mesh) {
		l := w.alone().loop
		takeTurn(t, l.box)
		const many = 20_000
		urgent, ordered, late := 0, 0, 0
		few := make(chan struct{}, 2) // so most rounds find the lanes empty, or nearly
		go func() {
			for i := range many {
				few <- struct{}{}
				l.box.post(true, func(vote.Now) { urgent = i + 1 })
				l.box.post(false, func(vote.Now) {
					if ordered++; urgent < ordered {
						late++
					}
					<-few
				})
			}
		}()
		for ordered < many {
			l.round()
		}
		l.runAsOwner()
		if late > 0 {
			t.Errorf("%d of %d", late, many)
		}
	})
}
