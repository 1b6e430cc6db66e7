package eventqueue

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func noPanic(t *testing.T) func(any, []byte) {
	return func(fault any, _ []byte) { t.Errorf("panic: %v", fault) }
}

func TestEventsAreToldInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(noPanic(t))
		var told []int
		for i := range 100 {
			q.Put(func() { told = append(told, i) })
		}
		q.Close()
		if len(told) != 100 || !slices.IsSorted(told) || q.Dropped() != 0 {
			t.Errorf("told %v, dropped %d", told, q.Dropped())
		}
	})
}

func TestAFullQueueDropsEventsAndCountsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(noPanic(t))
		free := make(chan struct{})
		q.Put(func() { <-free })
		synctest.Wait() // this event has left the queue
		told := 0
		for range MaxEvents + 7 {
			q.Put(func() { told++ })
		}
		if got := q.Dropped(); got != 7 {
			t.Errorf("%d events were dropped, want 7", got)
		}
		close(free)
		q.Close()
		if told != MaxEvents {
			t.Errorf("%d events were told, want %d", told, MaxEvents)
		}
		q.Put(func() { t.Error("told after Close") })
		if got := q.Dropped(); got != 8 || !q.Closed() {
			t.Errorf("%d events were dropped, want 8", got)
		}
	})
}

func TestPanicsAreCountedAndReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var faults []any
		q := New(func(fault any, stack []byte) {
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, fault)
			if len(stack) == 0 {
				t.Error("no stack")
			}
		})
		told := 0
		q.Put(func() { panic("first") })
		q.Put(func() { told++ })
		q.Put(func() { runtime.Goexit() })
		q.Put(func() { told++ })
		synctest.Wait()
		q.Call(func() { panic("in the caller's goroutine") })
		q.Close()
		if told != 2 || q.Panics() != 3 || !slices.Equal(faults, []any{"first"}) {
			t.Errorf("%d events told, %d panics, reported: %v", told, q.Panics(), faults)
		}
	})
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(noPanic(t))
		free := make(chan struct{})
		q.Put(func() { <-free })
		q.Put(func() { t.Error("told after Close") })
		began := time.Now()
		q.Close()
		if took := time.Since(began); took != closeTimeout {
			t.Errorf("it took %v", took)
		}
		close(free)
		<-q.done
		if got := q.Dropped(); got != 1 {
			t.Errorf("%d events were dropped, want 1", got)
		}
	})
}
