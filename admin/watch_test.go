package admin

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/meshtest"
)

// read reads events until an error, and returns a function that waits for the next event.
func read(from iter.Seq2[Event, error]) func() (Event, error, bool) {
	type result struct {
		e   Event
		err error
	}
	results := make(chan result, 1000)
	go func() {
		defer close(results)
		for e, err := range from {
			results <- result{e, err}
		}
	}()
	return func() (Event, error, bool) {
		select {
		case r, ok := <-results:
			return r.e, r.err, ok
		case <-time.After(2 * time.Hour): // of the bubble's time: else a test would never end
			return Event{}, errors.New("no event for two hours"), true
		}
	}
}

// await returns the next event of a kind, and fails if the iteration ends before.
func await(t *testing.T, next func() (Event, error, bool), kind lockmesh.EventKind) Event {
	t.Helper()
	for {
		e, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("no event %v: %v", kind, err)
		}
		if e.Kind == kind.String() {
			return e
		}
	}
}

func TestWatch(t *testing.T) {
	sampled.Computes(t)
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		must(t, second(m.Node("b").Lock(ctx, "jobs/<b>", lockmesh.WithValue([]byte("<script>")))))
		next := read(s.c.WatchPrefix(ctx, "jobs/"))
		e := await(t, next, lockmesh.EventGranted)
		if e.Key != "jobs/<b>" || e.Node != "b" || !e.Current || string(e.Value) != "<script>" || e.Mode != "exclusive" {
			t.Errorf("the present state is %+v", e)
		}
		if e = await(t, next, lockmesh.EventSynced); time.Since(e.At).Abs() > time.Second {
			t.Errorf("synced is dated %v", e.At)
		}
		time.Sleep(time.Hour) // with heartbeats in between
		lease, err := m.Node("c").Lock(ctx, "jobs/2")
		must(t, err)
		if e = await(t, next, lockmesh.EventGranted); e.Token != lease.Token() || e.Current || e.Node != "c" {
			t.Errorf("the event is %+v", e)
		}
		must(t, lease.Unlock(ctx))
		await(t, next, lockmesh.EventReleased)
		time.Sleep(time.Hour)
		late := read(s.c.WatchPrefix(ctx, "jobs/")) // another watch of the same keys
		if e = await(t, late, lockmesh.EventSynced); time.Since(e.At).Abs() > time.Second {
			t.Errorf("synced of a later watch is dated %v", e.At)
		}

		one := read(s.c.Watch(ctx, "jobs/3"))
		await(t, one, lockmesh.EventSynced)
		must(t, second(m.Node("c").Lock(ctx, "jobs/2")))
		must(t, second(m.Node("c").Lock(ctx, "jobs/3")))
		if e := await(t, one, lockmesh.EventGranted); e.Key != "jobs/3" {
			t.Errorf("the watch of one key tells of %+v", e)
		}

		m.Crash("a")
		for {
			_, err, ok := next()
			if err != nil {
				wantError(t, err, lockmesh.ErrClosed)
				break
			}
			if !ok {
				t.Fatal("the watch has ended without an error")
			}
		}
	})
}

// TestABrowserThatConnectsAgainIsToldOfTheGap: the browser can't know the events in between.
func TestABrowserThatConnectsAgainIsToldOfTheGap(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for header, want := range map[string]string{"": "synced", "Last-Event-ID: 7\n": "gap"} {
			lines := bufio.NewScanner(s.raw(request("GET /v1/watch?prefix=x") + header + "\n"))
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
				continue
			}
			if !strings.HasPrefix(lines.Text(), `data: {"kind":"`+want+`"`) {
				t.Errorf("with %q the first event is %s", header, lines.Text())
			}
		}
	})
}

// TestASlowReaderIsToldOfItsGap: a reader that pauses while events come, and for some seconds
// more, misses events, and receives a gap.
func TestASlowReaderIsToldOfItsGap(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		lines := bufio.NewScanner(s.raw(request("GET /v1/watch") + "\n"))
		until := func(text string) {
			t.Helper()
			for lines.Scan() {
				if strings.Contains(lines.Text(), text) {
					return
				}
			}
			t.Fatalf("no line has %s: %v", text, lines.Err())
		}
		until("synced")
		for i := range 1000 { // nothing is read meanwhile, for less than writeTime
			must(t, second(m.Node("b").Lock(t.Context(), fmt.Sprint("k", i))))
			switch i {
			case 450: // by then the stream is full, and further events wait
				time.Sleep(time.Second)
			case 900:
				time.Sleep(writeTime/2 + time.Second) // longer than the events of a burst may wait
			}
		}
		time.Sleep(time.Second) // some voters' reports linger: the last come before the reading begins
		until(`"kind":"gap"`)
		until(`"key":"k999"`)
	})
}

// TestAReaderThatStopsIsCut: the stream of a stuck reader takes a place no longer than writeTime.
func TestAReaderThatStopsIsCut(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for _, path := range []string{"/v1/watch", "/v1/electorate/watch"} {
			s.raw(request("GET "+path) + "\n")
			time.Sleep(time.Second)
			if n := s.h.streams.taken(); n != 1 {
				t.Fatalf("%d streams", n)
			}
			time.Sleep(writeTime)
			if s.h.streams.taken() != 0 {
				t.Errorf("%s: the stream is still open", path)
			}
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a", AllowReads())
		s.h.streams.most = 4
		open := func(c *Client) func() {
			next, stop := iter.Pull2(c.WatchElectorate(t.Context()))
			if _, err, _ := next(); err != nil {
				stop()
				wantError(t, err, ErrLimit)
				return nil
			}
			return stop
		}
		stranger := s.client("")
		for i, c := range []*Client{stranger, stranger, stranger, s.c, s.c, s.c} {
			stop := open(c)
			if (stop == nil) != (i == 2 || i == 5) { // strangers leave room for an operator
				t.Errorf("stream %d: opened is %t", i, stop != nil)
			}
			if stop != nil {
				defer stop()
			}
		}
	})
}

func TestTheElectorateIsWatched(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for e, err := range s.c.WatchElectorate(t.Context()) {
			must(t, err)
			switch e.Counting {
			case 3:
				m.Crash("c")
			case 2:
				return
			}
		}
	})
}

func TestAWatchOfABadKey(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for _, err := range s.c.Watch(t.Context(), "") {
			wantError(t, err, lockmesh.ErrKey)
		}
		for _, err := range s.c.WatchPrefix(t.Context(), "\xff") {
			wantError(t, err, lockmesh.ErrKey)
		}
	})
}
