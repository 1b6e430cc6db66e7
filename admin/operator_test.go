package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestWhatAnOperatorReads(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		_, err := m.Node("a").Lock(ctx, "jobs/1", lockmesh.WithValue([]byte("\xff\x00")))
		must(t, err)
		_, err = m.Node("b").RLock(ctx, "jobs/2")
		must(t, err)
		go m.Node("c").Lock(ctx, "jobs/1") // waits until the end of the test
		s.becomes("jobs/1", 1, 1)

		status, err := s.c.Status(ctx)
		must(t, err)
		if status.Name != "a" || status.Closed || status.Draining || len(status.Members) != 3 || len(status.Held) != 1 || status.Held[0].Key != "jobs/1" {
			t.Errorf("the status is %+v", status)
		}
		members, err := s.c.Members(ctx)
		must(t, err)
		if len(members) != 3 || members[1].Name != "b" || members[1].State != "alive" {
			t.Errorf("the members are %+v", members)
		}
		e, err := s.c.Electorate(ctx)
		must(t, err)
		if !e.Ready || e.Majority != 2 || e.Counting != 3 || len(e.Voters) != 3 || e.Voters[2].State != "reachable" {
			t.Errorf("the electorate is %+v", e)
		}
		lock, err := s.c.Inspect(ctx, "jobs/1")
		must(t, err)
		if len(lock.Holders) != 1 || lock.Holders[0].Node != "a" || string(lock.Holders[0].Value) != "\xff\x00" || len(lock.Waiters) != 1 || lock.Waiters[0].Node != "c" {
			t.Errorf("the lock is %+v", lock)
		}
		lock, err = s.c.Inspect(ctx, "free")
		must(t, err)
		if lock.Holders == nil || lock.Waiters == nil || len(lock.Holders) != 0 {
			t.Errorf("a free key is %+v", lock)
		}

		m.Crash("a") // the last status after the end of the node
		status, err = s.c.Status(ctx)
		must(t, err)
		if !status.Closed {
			t.Error("the status doesn't say that the node has ended")
		}
		_, err = s.c.Electorate(ctx)
		wantError(t, err, lockmesh.ErrClosed)
		_, err = s.c.Inspect(ctx, "free")
		wantError(t, err, lockmesh.ErrClosed)
	})
}

// The ids of secrets are for the holders of the token: by an id a reader could test guesses.
func TestIDsOfSecretsNeedTheToken(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		for name, row := range map[string]struct {
			s     *site
			token string
			shown bool
		}{
			"reads for all, with the token": {newSite(t, m, "a", AllowReads()), testToken, true},
			"reads for all, without":        {newSite(t, m, "b", AllowReads()), "", false},
			"the owner, without":            {newOwnerSite(t, m, "c"), "", true},
		} {
			status, err := row.s.client(row.token).Status(t.Context())
			must(t, err)
			if len(status.Secrets) != 1 || (status.Secrets[0].ID != "") != row.shown || len(status.Secrets[0].AcceptedBy) != 3 {
				t.Errorf("%s: %+v", name, status.Secrets)
			}
		}
	})
}

func TestKeysInPages(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		var want []string
		for i := range 2*defaultPage + 50 {
			key := "k/" + string(rune('a'+i/26)) + string(rune('a'+i%26))
			want = append(want, key)
			must(t, second(m.Node("b").Lock(ctx, key)))
		}
		must(t, second(m.Node("b").Lock(ctx, "other")))
		slices.Sort(want)
		var got []string
		for l, err := range s.c.Locks(ctx, "k/") {
			must(t, err)
			got = append(got, l.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d keys are listed, not %d", len(got), len(want))
		}
		page, err := s.c.LocksPage(ctx, "k/", want[2], 2)
		must(t, err)
		if len(page.Locks) != 2 || page.Locks[0].Key != want[3] || page.Next == "" {
			t.Errorf("the page is %+v", page)
		}
		for _, limit := range []int{-1, lockmesh.MaxPageKeys + 1} {
			_, err := s.c.LocksPage(ctx, "", "", limit)
			wantError(t, err, ErrRequest)
		}
	})
}

func TestAnOperatorRevokesAndEvicts(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		const key = "jobs/böse ?&#%/revoke"
		held, err := m.Node("b").Lock(ctx, key)
		must(t, err)
		must(t, s.c.Revoke(ctx, key, "the disk is full"))
		if r := <-held.Revoked(); r.Node != "a" || r.Reason != "the disk is full" {
			t.Errorf("the holder was asked by %+v", r)
		}
		must(t, held.Err())

		_, err = s.c.Evict(ctx, key, EvictRequest{}, 0)
		wantError(t, err, ErrRequest)
		_, err = s.c.Evict(ctx, key, EvictRequest{Node: "c"}, 0)
		wantError(t, err, ErrRequest)
		_, err = s.c.Evict(ctx, key, EvictRequest{Token: held.Token(), Node: "c"}, 0)
		wantError(t, err, ErrRequest)
		must(t, held.Err()) // none of these requests has ended the lease

		out, err := s.c.Evict(ctx, key, EvictRequest{Node: "b", Reason: "stuck"}, 0)
		must(t, err)
		if *out != (Evicted{Key: key, Token: held.Token(), Node: "b"}) {
			t.Errorf("evicted: %+v", out)
		}
		wantError(t, held.Err(), lockmesh.ErrEvicted)
		out, err = s.c.Evict(ctx, key, EvictRequest{Token: held.Token()}, 0) // again
		must(t, err)
		if out.Node != "" {
			t.Errorf("evicted again: %+v", out)
		}

		// The lease of an unreachable node ends by itself; the eviction waits for the end.
		held, err = m.Node("b").Lock(ctx, key)
		must(t, err)
		m.Partition([]string{"a", "c"}, []string{"b"})
		_, err = s.c.Evict(ctx, key, EvictRequest{Token: held.Token()}, time.Second)
		wantError(t, err, context.DeadlineExceeded)
		must(t, second(s.c.Evict(ctx, key, EvictRequest{Token: held.Token()}, 0)))
		m.Heal()
		m.Ready()
		s.becomes(key, 0, 0)
	})
}

func TestAnOperatorDrainsAndStops(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		held, err := m.Node("a").Lock(ctx, "job")
		must(t, err)
		wantError(t, s.c.Drain(ctx, time.Second), lockmesh.ErrHeld, context.DeadlineExceeded)
		if !m.Node("a").Draining() {
			t.Error("the node isn't draining")
		}
		_, err = s.c.Lock(ctx, "other", LockOptions{})
		wantError(t, err, lockmesh.ErrClosed)
		must(t, held.Unlock(ctx))
		must(t, s.c.Drain(ctx, 0))
		must(t, s.c.Stop(ctx, 0))
		status, err := s.c.Status(ctx)
		must(t, err)
		if !status.Closed {
			t.Error("the node hasn't ended")
		}
	})
}

// TestAStopWaitsForClients: a client with a lease for a set ttl can't be notified of the node's
// end, so the node waits for the end of the lease, doesn't extend the lease, and grants no further
// leases. A holder over a connection is notified, with a moment to finish. The node doesn't wait
// for the application's own leases.
func TestAStopWaitsForClients(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		asked := 0
		s := newSite(t, m, "a", WithBeforeEnd(func(context.Context) error { asked++; return nil }))
		ctx := t.Context()
		must(t, second(m.Node("a").Lock(ctx, "own")))
		timed, err := s.c.Lock(ctx, "timed", LockOptions{TTL: 8 * time.Second})
		must(t, err)
		held, err := s.c.Hold(ctx, "held", LockOptions{})
		must(t, err)
		waits := make(chan error, 1)
		go func() { waits <- second(s.c.Lock(ctx, "timed", LockOptions{Wait: time.Minute})) }()
		s.becomes("timed", 1, 1)
		from, stopped := time.Now(), make(chan error)
		go func() { stopped <- s.c.Stop(ctx, time.Minute) }()
		wantError(t, <-waits, ErrStopping)
		<-held.Done()
		wantError(t, held.Release(), ErrStopping)
		wantError(t, second(s.c.Extend(ctx, timed.ID, 0)), ErrStopping)
		wantError(t, second(s.c.Lock(ctx, "other", LockOptions{})), ErrStopping)
		wantError(t, second(s.c.Hold(ctx, "other", LockOptions{})), ErrStopping)
		must(t, second(s.c.Lease(ctx, timed.ID)))
		if n, _ := s.holders("timed"); n != 1 || s.mesh.Status().Closed {
			t.Error("the node has ended before the lease")
		}
		must(t, <-stopped)
		if d := time.Since(from); d < time.Duration(timed.LeftMS)*time.Millisecond-time.Second || d > 9*time.Second || asked != 1 {
			t.Errorf("the stop took %v, and asked %d times", d, asked)
		}
		s.becomes("timed", 0, 0)
		s.becomes("own", 0, 0)
	})
}

// TestAStopThatIsTooShort: the node ends, and releases no lease on which a client counts.
func TestAStopThatIsTooShort(t *testing.T) {
	for name, opt := range map[string]Option{
		"lease": func(*Handler) {},
		"hook":  WithBeforeEnd(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
	} {
		run(t, func(t *testing.T, m *meshtest.Mesh) {
			s := newSite(t, m, "a", opt)
			ctx := t.Context()
			if name == "lease" {
				must(t, second(s.c.Lock(ctx, "job", LockOptions{TTL: 8 * time.Second})))
			} else {
				must(t, second(m.Node("a").Lock(ctx, "job")))
			}
			wantError(t, s.c.Stop(ctx, time.Second), lockmesh.ErrHeld)
			if !s.mesh.Status().Closed {
				t.Error("the node hasn't ended")
			}
			time.Sleep(3 * time.Second)
			if _, err := m.Node("b").TryLock(ctx, "job"); err == nil {
				t.Errorf("%s: the key was free at once", name)
			}
			must(t, second(m.Node("b").Lock(ctx, "job")))
		})
	}
}

// TestALeaveGoesOnWithoutItsClient: a voter is voted out even if its operator presses Ctrl-C.
func TestALeaveGoesOnWithoutItsClient(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantError(t, s.c.Leave(ctx, 5*time.Minute), context.DeadlineExceeded)
		time.Sleep(2 * time.Minute)
		for _, v := range m.Node("b").Status().Electorate.Voters {
			if v.Name == "a" {
				t.Error("a is still a voter")
			}
		}
		if !s.mesh.Status().Closed {
			t.Error("the node hasn't ended")
		}
	}, meshtest.WithDynamicMembership())
}

func TestOnlyTheOwnerRecovers(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s, owner := newSite(t, m, "a"), newOwnerSite(t, m, "a")
		ctx := t.Context()
		wantError(t, owner.c.Recover(ctx, 0, "a"), lockmesh.ErrNotLost)
		m.Crash("b")
		m.Crash("c")
		time.Sleep(time.Minute)
		wantError(t, s.c.Recover(ctx, 0, "a"), ErrForbidden)
		if e := s.mesh.Status().Electorate; len(e.Voters) != 3 {
			t.Fatalf("the electorate is %v", e)
		}
		wantError(t, owner.c.Recover(ctx, 0), lockmesh.ErrConfig)
		must(t, owner.c.Recover(ctx, 0, "a"))
		m.Ready("a")
		must(t, second(owner.c.Lock(ctx, "job", LockOptions{})))
	}, meshtest.WithDynamicMembership())
}

func TestActionsAreBounded(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		s.h.actions.most = 1
		must(t, second(m.Node("a").Lock(t.Context(), "job")))
		drained := make(chan error)
		go func() { drained <- s.c.Drain(t.Context(), time.Minute) }()
		time.Sleep(time.Second)
		wantError(t, s.c.Drain(t.Context(), 0), ErrLimit)
		wantError(t, <-drained, lockmesh.ErrHeld)
	})
}

func TestAStopEndsWhatWaits(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		must(t, second(m.Node("b").Lock(ctx, "job")))
		ends := make(chan error, 3)
		go func() { ends <- second(s.c.Lock(ctx, "job", LockOptions{Wait: time.Hour})) }()
		go func() { ends <- second(s.c.Hold(ctx, "job", LockOptions{Wait: time.Hour})) }()
		go func() {
			for _, err := range s.c.WatchPrefix(ctx, "") {
				if err != nil {
					ends <- err
				}
			}
		}()
		s.becomes("job", 1, 2)
		synctest.Wait()
		from := time.Now()
		s.stop()
		for range 3 {
			wantError(t, <-ends, ErrStopping)
		}
		if d := time.Since(from); d > time.Second {
			t.Errorf("the stop took %v", d)
		}
		s.becomes("job", 1, 0)
	})
}

// TestEveryErrorOfLockmeshHasACode compares the codes with the sentinels of package lockmesh.
func TestEveryErrorOfLockmeshHasACode(t *testing.T) {
	for _, err := range []error{
		lockmesh.ErrHeld, lockmesh.ErrNoQuorum, lockmesh.ErrLost, lockmesh.ErrEvicted, lockmesh.ErrReleased, lockmesh.ErrClosed, lockmesh.ErrConfig,
		lockmesh.ErrStateDir, lockmesh.ErrNotLost, lockmesh.ErrStillVoter, lockmesh.ErrRefused, lockmesh.ErrKey, lockmesh.ErrPermits, lockmesh.ErrClash,
		lockmesh.ErrOption, lockmesh.ErrNoLeader, lockmesh.ErrBusy,
		ErrRequest, ErrUnauthorized, ErrForbidden, ErrUnknownLease, ErrLimit, ErrStopping, context.Canceled, context.DeadlineExceeded,
	} {
		e := errorOf(&lockmesh.Error{Op: "lock", Reason: err, Text: "text"})
		if !errors.Is(e, err) || e.Code == "internal" || e.Advice == "" || e.Status < 400 {
			t.Errorf("%v becomes %+v", err, e)
		}
	}
	if e := errorOf(errors.New("x")); e.Code != "internal" || e.Status != http.StatusInternalServerError {
		t.Errorf("%+v", e)
	}
}
