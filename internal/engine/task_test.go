package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// roundMax is the limit on the cost of a round with nothing but a task, in the unit of node.Budget:
// the budget, a last lease, and the answers of voters.
const roundMax = node.Budget + node.Budget/8

// many is a number of calls that take about five rounds to end, and of leases that take 20.
const many = 5 * node.Budget / costFailed

// taskRounds runs rounds of the loop, owned by the test, until the loop's tasks are done.
// taskRounds checks the work of each round, and returns the number of rounds.
func taskRounds(t *testing.T, l *loop) (rounds int) {
	t.Helper()
	for rounds == 0 || len(l.tasks) > 0 {
		before := l.node.Work()
		heard := false
		l.box.post(true, func(vote.Now) { heard = true })
		l.roundAndFlush()
		rounds++
		if cost := l.node.Work() - before; cost > roundMax {
			t.Errorf("round %d cost %d, want at most %d", rounds, cost, roundMax)
		}
		if !heard {
			t.Errorf("round %d left an urgent input waiting", rounds)
		}
	}
	return rounds
}

// A node with many leases and many waiting calls leaves: no round costs more than its budget, each
// call and each lease is ended, and a lease released by the application meanwhile isn't handed to a
// call of the same node.
func TestLeavingReleasesLeasesInPieces(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		eng := w.alone()
		l := eng.loop
		var leases []*Lease
		for i := range many {
			leases = append(leases, mustLock(t, eng, fmt.Sprintf("held-%d", i), vote.Exclusive))
		}
		answers := make(chan error, many)
		for i := range many {
			go func() {
				_, err := lock(t.Context(), eng, fmt.Sprintf("held-%d", i))
				answers <- err
			}()
		}
		synctest.Wait()
		takeTurn(t, l.box)
		gone := make(chan error, 1)
		l.box.post(false, func(vote.Now) { l.releaseAll("leave", make(chan struct{}), gone) })
		l.roundAndFlush()
		if n := len(l.calls.m); n < many/2 || n == many {
			t.Fatalf("%d of %d calls wait after the first round", n, many)
		}
		// The node itself would hand a released key to its waiting call.
		waiting := l.calls.m[l.tasks[0].numbers[len(l.tasks[0].numbers)-1]]
		unlocked := leases[slices.IndexFunc(leases, func(lease *Lease) bool { return lease.key == waiting.Key })]
		unlocked.End()
		l.box.post(false, func(now vote.Now) { l.release(now, unlocked, EndUnlocked) })
		if rounds := taskRounds(t, l); rounds < many*(costFreed+costFailed)/roundMax-1 {
			t.Errorf("the tasks took %d rounds", rounds)
		}
		l.runAsOwner()
		synctest.Wait()
		if err := <-gone; err != nil {
			t.Error(err)
		}
		for _, lease := range leases {
			if err := lease.Cause(); !errors.Is(err, errs.Released) {
				t.Fatalf("%q ended with %v", lease.key, err)
			}
		}
		for range many {
			if err := <-answers; !errors.Is(err, errs.Closed) {
				t.Fatalf("a waiting call ended with %v", err)
			}
		}
		if n := len(l.held.m) + len(l.released.m) + len(l.calls.m); n != 0 {
			t.Errorf("%d leases or calls are left", n)
		}
	})
}

// Calls fail in pieces, too, when a node with many waiting calls drains, and when a node finds an
// older process with its name.
func TestDrainAndRefusalsFailCallsInPieces(t *testing.T) {
	for _, row := range []struct {
		name  string
		begin func(l *loop, now vote.Now, drained chan<- struct{})
		want  error
	}{
		{"drain", func(l *loop, _ vote.Now, drained chan<- struct{}) { l.drain(drained) }, errs.Closed},
		{"refusal", func(l *loop, now vote.Now, _ chan<- struct{}) { l.setDuplicateName(now, "taken") }, errs.Refused},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *mesh) {
				eng := w.alone()
				l := eng.loop
				held := mustLock(t, eng, "held", vote.Exclusive)
				answers := make(chan error, many)
				for range many {
					go func() {
						_, err := lock(t.Context(), eng, "held")
						answers <- err
					}()
				}
				synctest.Wait()
				takeTurn(t, l.box)
				drained := make(chan struct{}, 1)
				l.box.post(false, func(now vote.Now) { row.begin(l, now, drained) })
				if rounds := taskRounds(t, l); rounds < 4 {
					t.Errorf("the calls failed in %d rounds", rounds)
				}
				l.runAsOwner()
				for range many {
					if err := <-answers; !errors.Is(err, row.want) {
						t.Fatalf("a waiting call ended with %v", err)
					}
				}
				if err := held.Cause(); err != nil {
					t.Errorf("the lease ended: %v", err)
				}
				if len(drained) > 0 {
					t.Error("the node has drained while a lease is held")
				}
				mustUnlock(t, held)
				synctest.Wait()
				if row.want == errs.Closed && len(drained) == 0 {
					t.Error("the node hasn't drained after the last lease")
				}
			})
		})
	}
}

// A node stops with a context that has ended, and closes: the voters know the end of each lease, so
// another node gets the keys at once.
func TestStopTellsOfAllLeasesThoughItsTimeIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		a, b, _ := w.three()
		for i := range many {
			mustLock(t, a, fmt.Sprintf("held-%d", i), vote.Exclusive)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		wantIs(t, a.Stop(ended), context.Canceled)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		began := time.Now()
		for i := range many {
			mustLock(t, b, fmt.Sprintf("held-%d", i), vote.Exclusive)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the keys were free after %v", took)
		}
	})
}
