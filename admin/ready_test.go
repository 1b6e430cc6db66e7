package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// TestReadyAndSettled: a restarted voter is quiet for a MaxTTL; meanwhile locks are granted, and
// no other voter can be spared.
func TestReadyAndSettled(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		for _, ask := range []func(context.Context, time.Duration) (*Electorate, error){s.c.Ready, s.c.Settled} {
			e, err := ask(ctx, MaxReadyWait)
			must(t, err)
			if !e.Ready || len(e.Voters) != 3 {
				t.Errorf("%+v", e)
			}
		}
		m.Crash("c")
		m.Restart("c")
		from := time.Now()
		must(t, second(s.c.Ready(ctx, 0)))
		_, err := s.c.Settled(ctx, 0)
		wantError(t, err, lockmesh.ErrNoQuorum, context.DeadlineExceeded)
		if d := time.Since(from); d > time.Second {
			t.Errorf("without a wait, the answers took %v", d)
		}
		if err == nil || !strings.Contains(err.Error(), "2 of 3 voters count: c ") {
			t.Errorf("the error is %v", err)
		}
		must(t, second(s.c.Settled(ctx, MaxReadyWait)))
		if d := time.Since(from); d < lockmesh.DefaultMaxTTL || d > 2*lockmesh.DefaultMaxTTL {
			t.Errorf("settled %v after the restart", d)
		}
	})
}

func TestReadyWithoutAMajority(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		m.Crash("b")
		m.Crash("c")
		for err := error(nil); err == nil; { // until the node has noticed
			time.Sleep(time.Second)
			_, err = s.c.Ready(ctx, 0)
		}
		from := time.Now()
		_, err := s.c.Ready(ctx, 20*time.Second)
		wantError(t, err, lockmesh.ErrNoQuorum)
		if d := time.Since(from); d < 20*time.Second || d > 21*time.Second {
			t.Errorf("a wait of 20s took %v", d)
		}
		_, err = s.c.Ready(ctx, MaxReadyWait+1)
		wantError(t, err, ErrRequest)

		// Waits are bounded in number, and end when the client goes or the server stops.
		gone, cancel := context.WithCancel(ctx)
		results := make(chan error, MaxStreams)
		for range MaxStreams {
			go func() { results <- second(s.c.Settled(gone, MaxReadyWait)) }()
		}
		if n := s.h.streams.taken(); n != MaxStreams {
			t.Errorf("%d requests wait", n)
		}
		wantError(t, second(s.c.Ready(ctx, 0)), ErrLimit)
		cancel()
		for range MaxStreams {
			wantError(t, <-results, context.Canceled)
		}
		if n := s.h.streams.taken(); n != 0 {
			t.Errorf("%d requests wait though their clients are gone", n)
		}
		go func() { results <- second(s.c.Settled(ctx, MaxReadyWait)) }()
		synctest.Wait()
		s.stop()
		wantError(t, <-results, ErrStopping)
	})
}

func TestReadyEndsWithTheNode(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		m.Crash("b")
		results := make(chan error, 1)
		go func() { results <- second(s.c.Settled(t.Context(), MaxReadyWait)) }()
		synctest.Wait()
		must(t, s.mesh.Stop(t.Context()))
		if err := <-results; !errors.Is(err, lockmesh.ErrClosed) {
			t.Errorf("the wait ends with %v", err)
		}
		wantError(t, second(s.c.Ready(t.Context(), 0)), lockmesh.ErrClosed)
	})
}

// TestReadyWhileDraining: a node that drains acquires no more locks, and goes on to vote.
func TestReadyWhileDraining(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		must(t, second(s.c.Ready(t.Context(), 0)))
		must(t, s.mesh.Drain(t.Context()))
		err := second(s.c.Ready(t.Context(), 0))
		wantError(t, err, lockmesh.ErrClosed)
		if !strings.Contains(err.Error(), "draining") {
			t.Errorf("the error is %v", err)
		}
		must(t, second(s.c.Settled(t.Context(), 0)))
	})
}
