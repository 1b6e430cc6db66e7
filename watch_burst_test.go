package lockmesh

import (
	"testing"
	"testing/synctest"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/watchmerge"
)

// tooLong returns more events than may wait for a reader at all.
func tooLong() []watchmerge.Event {
	const n = watchQueueBytes/(eventBytes+vote.MaxValueLen) + 1
	told := make([]watchmerge.Event, n)
	for i := range told {
		value := make([]byte, vote.MaxValueLen)
		told[i] = watchmerge.Event{Kind: watchmerge.Granted, View: vote.View{Key: "k", Token: vote.Token(i + 1), Value: value}}
	}
	return told
}

// A query may show more events at once than may wait for a reader. A reader that waits for events
// receives a gap nevertheless.
func TestAReaderIsWokenByABurstThatIsTooLongForIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a := w.alone()
		watch := must[*Watch](t)(a.WatchPrefix(t.Context(), ""))
		wantSeen(t, watch, "synced")
		a.eng.Post(false, func(vote.Now) { watch.put(tooLong()) })
		wantSeen(t, watch, "gap", "synced")
	})
}

// After each gap the present holders follow. If a reader takes nothing while a mesh breaks and
// heals again and again, only the newest of these states waits for the reader.
func TestGapsDontPileUpBeforeASlowReader(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a := w.alone()
		watch := must[*Watch](t)(a.WatchPrefix(t.Context(), ""))
		synctest.Wait()
		const leases, gaps = 2 * watchQueue, 20
		most := make(chan int, 1)
		a.eng.Post(false, func(vote.Now) {
			n := 0
			for gap := range gaps {
				told := []watchmerge.Event{{Kind: watchmerge.Gap}}
				for i := range leases {
					told = append(told, watchmerge.Event{
						Kind: watchmerge.Granted, Current: true, View: vote.View{Key: "k", Token: vote.Token(gap*leases + i + 1)},
					})
				}
				watch.put(append(told, watchmerge.Event{Kind: watchmerge.Synced}))
				watch.mu.Lock()
				n = max(n, len(watch.queue))
				watch.mu.Unlock()
			}
			most <- n
		})
		if n := <-most; n > leases+watchQueue+2 {
			t.Errorf("%d events wait", n)
		}
		known := make(map[uint64]bool)
		for synctest.Wait(); ; synctest.Wait() {
			select {
			case e := <-watch.Events():
				switch e.Kind {
				case EventGap:
					clear(known)
				case EventGranted:
					known[e.Token] = true
				}
				continue
			default:
			}
			break
		}
		if len(known) != leases || !known[gaps*leases] {
			t.Errorf("%d leases are known at the end, the last of them %v", len(known), known[gaps*leases])
		}
	})
}
