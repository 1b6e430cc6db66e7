package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

func TestABarrierLetsAllInAndOutTogether(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for seed := range uint64(sampled.Count(4, 8)) { // the seeds have 1, 2, 3 and 7 members
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				members := rounded(w, seed)
				const rounds = 12
				n := []int{1, 2, 3, 7}[seed%4]
				var came, left [rounds]atomic.Int32
				var done atomic.Int32
				for i := range n {
					random := rand.New(rand.NewPCG(seed, uint64(i)))
					barrier := members[i%3].DoubleBarrier("b", n)
					pause := func() {
						if random.IntN(3) == 0 {
							time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
						}
					}
					go func() {
						for round := range rounds {
							pause()
							came[round].Add(1)
							if err := barrier.Enter(t.Context()); err != nil {
								t.Error(err)
								return
							}
							if got := came[round].Load(); int(got) != n {
								t.Errorf("round %d: let in when %d of %d had come", round, got, n)
							}
							pause()
							left[round].Add(1)
							if err := barrier.Leave(t.Context()); err != nil {
								t.Error(err)
								return
							}
							if got := left[round].Load(); int(got) != n {
								t.Errorf("round %d: let out when %d of %d had left", round, got, n)
							}
						}
						done.Add(1)
					}()
				}
				time.Sleep(10 * time.Minute)
				if int(done.Load()) != n {
					t.Errorf("%d of %d are done", done.Load(), n)
				}
			})
		})
	}
}

// rounded returns the nodes of a barrier's members. With every second group of four seeds, other
// nodes are the voters, and restart one after the other.
func rounded(w *wire, seed uint64) []*Mesh {
	a, b, c := w.three()
	if seed%8 < 4 {
		return []*Mesh{a, b, c}
	}
	voters := []string{"a", "b", "c"}
	members := []*Mesh{w.join("d", voters, nil), w.join("e", voters, nil), w.join("f", voters, nil)}
	at := map[string]*Mesh{"a": a, "b": b, "c": c}
	go func() {
		for i := range 6 {
			time.Sleep(3 * time.Second)
			name := voters[i%3]
			if err := at[name].Close(); err != nil {
				w.t.Error(err)
			}
			at[name] = w.join(name, voters, nil)
			time.Sleep(12 * time.Second) // until the voter's votes count again
		}
	}()
	return members
}

// enters starts a call of Enter and returns a channel for the result.
func enters(ctx context.Context, b *DoubleBarrier) <-chan error {
	c := make(chan error, 1)
	go func() { c <- b.Enter(ctx) }()
	return c
}

func open(c <-chan error) bool {
	synctest.Wait()
	return len(c) > 0
}

func TestAMembersDeathOpensTheBarrierForTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		ba, bb, bc := a.DoubleBarrier("b", 3), b.DoubleBarrier("b", 3), c.DoubleBarrier("b", 3)
		ea, eb := enters(t.Context(), ba), enters(t.Context(), bb)
		if open(ea) || open(eb) {
			t.Fatal("two of three were let in")
		}
		ec := enters(t.Context(), bc)
		for _, e := range []<-chan error{ea, eb, ec} {
			if err := <-e; err != nil {
				t.Fatal(err)
			}
		}
		wantIs(t, bb.Enter(t.Context()), ErrClash)
		la := make(chan error, 1)
		go func() { la <- ba.Leave(t.Context()) }()
		time.Sleep(time.Minute)
		if open(la) {
			t.Fatal("it was let out while two are inside")
		}
		if err := bc.Leave(testwait.Within(t, time.Second)); err == nil {
			t.Fatal("it was let out while b is inside")
		} else {
			wantIs(t, err, context.DeadlineExceeded)
		}
		wantIs(t, bc.Err(), ErrReleased)
		wantIs(t, bc.Leave(t.Context()), ErrReleased)
		if bb.Err() != nil {
			t.Error(bb.Err())
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := <-la; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("after %v", took)
		}
		wantIs(t, bb.Leave(t.Context()), ErrClosed)
	})
}

func TestAMemberThatGivesUpIsNotCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		err := a.DoubleBarrier("b", 2).Enter(testwait.Within(t, time.Second))
		wantIs(t, err, context.DeadlineExceeded)
		if !contains(fmt.Sprint(err), "1 of 2") {
			t.Error(err)
		}
		synctest.Wait() // the release has reached the voters
		e := enters(t.Context(), b.DoubleBarrier("b", 2))
		time.Sleep(time.Second)
		if open(e) {
			t.Fatal("it was let in alone")
		}
		wantIs(t, c.DoubleBarrier("b", 3).Enter(t.Context()), ErrPermits)
		wantIs(t, c.DoubleBarrier("b", 0).Enter(t.Context()), ErrPermits)
		if err := c.DoubleBarrier("b", 2).Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-e; err != nil {
			t.Fatal(err)
		}
	})
}

func TestANodeThatComesBackIsNotCountedTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c"}
		a, b, _ := w.three()
		d := w.join("d", voters, nil)
		e1 := enters(t.Context(), d.DoubleBarrier("b", 3))
		e2 := enters(t.Context(), a.DoubleBarrier("b", 3))
		time.Sleep(time.Second)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		wantIs(t, <-e1, ErrClosed)
		d = w.join("d", voters, nil)
		e3 := enters(t.Context(), d.DoubleBarrier("b", 3))
		time.Sleep(2 * time.Second)
		if open(e2) || open(e3) {
			t.Fatal("two lives of one node were counted")
		}
		if err := b.DoubleBarrier("b", 3).Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, e := range []<-chan error{e2, e3} {
			if err := <-e; err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAMemberThatIsCutOffIsToldSo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		ba, bb := a.DoubleBarrier("b", 2), b.DoubleBarrier("b", 2)
		alone := enters(t.Context(), ba)
		time.Sleep(time.Second)
		w.stall("a", true)
		wantIs(t, <-alone, ErrLost)
		w.stall("a", false)
		time.Sleep(15 * time.Second)
		together := enters(t.Context(), ba)
		if err := bb.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-together; err != nil {
			t.Fatal(err)
		}
		w.stall("a", true)
		if err := bb.Leave(t.Context()); err != nil { // as soon as a's lease is over
			t.Fatal(err)
		}
		wantIs(t, ba.Err(), ErrLost)
		wantIs(t, ba.Leave(t.Context()), ErrLost)
	})
}

// The end of a mesh gives back the member's place: a pending Enter or Leave fails with ErrClosed,
// not with ErrReleased.
func TestABarrierEndsWithItsMesh(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(*Mesh) error
	}{
		{"that leaves", func(m *Mesh) error { return m.Leave(context.Background()) }},
		{"that is closed", (*Mesh).Close},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, c := w.three()
				ended := make(chan error, 1)
				go func() { ended <- a.DoubleBarrier("k", 2).Enter(t.Context()) }()
				synctest.Wait()
				if err := row.end(a); err != nil {
					t.Error(err)
				}
				err := <-ended
				wantIs(t, err, ErrClosed)
				wantNot(t, err, ErrReleased)

				one, other := b.DoubleBarrier("l", 2), c.DoubleBarrier("l", 2)
				go func() { ended <- one.Enter(t.Context()) }()
				if err := errors.Join(other.Enter(t.Context()), <-ended); err != nil {
					t.Fatal(err)
				}
				go func() { ended <- one.Leave(t.Context()) }()
				synctest.Wait()
				if err := row.end(b); err != nil {
					t.Error(err)
				}
				err = <-ended
				wantIs(t, err, ErrClosed)
				wantNot(t, err, ErrReleased)
			})
		})
	}
}
