package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestAClientsLease(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		l, err := s.c.Lock(ctx, "job", LockOptions{TTL: 8 * time.Second, Value: []byte("v")})
		must(t, err)
		if l.Key != "job" || l.Mode != "exclusive" || l.Node != "a" || l.TTLMS != 8000 || l.LeftMS <= 7000 || l.LeftMS > 8000 || l.Token == 0 || len(l.ID) < 22 {
			t.Errorf("the lease is %+v", l)
		}
		_, err = m.Node("b").TryLock(ctx, "job")
		wantError(t, err, lockmesh.ErrHeld)

		// A second client learns the holder of the key.
		_, err = s.client(testToken).Lock(ctx, "job", LockOptions{})
		wantError(t, err, lockmesh.ErrHeld)
		var e *Error
		if !errors.As(err, &e) || e.Status != http.StatusConflict || e.Lock == nil || len(e.Lock.Holders) != 1 || e.Lock.Holders[0].Token != l.Token || string(e.Lock.Holders[0].Value) != "v" {
			t.Errorf("the error doesn't show the holder: %+v", e)
		}

		for range 10 { // extended again and again, the lease lasts
			time.Sleep(7 * time.Second)
			l2, err := s.c.Extend(ctx, l.ID, 0)
			must(t, err)
			if l2.Token != l.Token || l2.LeftMS <= 7000 {
				t.Fatalf("extended, the lease is %+v", l2)
			}
		}
		must(t, s.c.Unlock(ctx, l.ID))
		next, err := m.Node("b").TryLock(ctx, "job")
		must(t, err)
		if next.Token() <= l.Token {
			t.Errorf("token %d isn't larger than %d", next.Token(), l.Token)
		}
		for _, err := range []error{s.c.Unlock(ctx, l.ID), second(s.c.Lease(ctx, l.ID)), second(s.c.Extend(ctx, l.ID, 0))} {
			wantError(t, err, lockmesh.ErrReleased)
		}
		wantError(t, s.c.Unlock(ctx, "unknown"), ErrUnknownLease)
	})
}

// TestAnExtensionOutlivesItsNode: a client works on after the node has crashed, until the deadline
// that the client was told. So the voters keep the key until then, and the node accepts no
// extension beyond the length for which the voters keep the key.
func TestAnExtensionOutlivesItsNode(t *testing.T) {
	for name, row := range map[string]struct {
		ttl     time.Duration
		refused bool
	}{
		"the same":           {0, false},
		"as long":            {3 * time.Second, false},
		"shorter":            {2 * time.Second, false},
		"longer":             {8 * time.Second, true},
		"a millisecond more": {3001 * time.Millisecond, true},
		"longer than MaxTTL": {time.Hour, true},
		"negative":           {-time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m *meshtest.Mesh) {
				s := newSite(t, m, "a")
				l, err := s.c.Lock(t.Context(), "job", LockOptions{TTL: 3 * time.Second})
				must(t, err)
				time.Sleep(2500 * time.Millisecond)
				extended, err := s.c.Extend(t.Context(), l.ID, row.ttl)
				if err == nil {
					l = extended
				}
				if row.refused {
					wantError(t, err, ErrRequest)
				} else {
					must(t, err)
				}
				m.Crash("a")
				next, err := m.Node("b").Lock(t.Context(), "job")
				must(t, err)
				if early := time.Until(l.Deadline); early > 0 || early < -time.Second {
					t.Errorf("b has the key %v after the deadline told to a's client", -early)
				}
				must(t, next.Unlock(t.Context()))
			})
		})
	}
}

// TestALockOutlivesItsNodeByItsTTL: if the node of a lock crashes, a voter or not, and before or
// after the session's next refresh, the key is free soon after the deadline. The earliest crash
// is a few round trips after the grant: a node that crashes at once may not have told a voter
// whose vote came late how long the lease is, and the voter keeps such a vote for a MaxTTL.
func TestALockOutlivesItsNodeByItsTTL(t *testing.T) {
	for _, node := range []string{"a", "d"} {
		for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
			for _, crash := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
				secret := meshtest.WithConfig(func(c *lockmesh.Config) { c.Secret = lockmesh.Secret(testSecret) })
				meshtest.Run(t, 4, func(t *testing.T, m *meshtest.Mesh) {
					l, err := newSite(t, m, node).c.Lock(t.Context(), "job", LockOptions{TTL: 3 * time.Second})
					must(t, err)
					time.Sleep(crash)
					m.Crash(node)
					next, err := m.Node("b").Lock(t.Context(), "job")
					must(t, err)
					if early := time.Until(l.Deadline); early > 0 || early < -time.Second {
						t.Errorf("%s, %v, %v: b has the key %v after the deadline", node, latency, crash, -early)
					}
					must(t, next.Unlock(t.Context()))
				}, meshtest.WithLatency(latency), meshtest.WithVoters(3), secret)
			}
		}
	}
}

// TestALeaseWithALongHoldOutlivesItsNode: the same for a key that is held for a least time too
// long for a promise of the voters. The votes are older than the grant by the time on the way, and
// by the wait for another holder.
func TestALeaseWithALongHoldOutlivesItsNode(t *testing.T) {
	for _, latency := range []time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond} {
		for off := time.Duration(0); off <= 2*time.Second; off += 250 * time.Millisecond {
			run(t, func(t *testing.T, m *meshtest.Mesh) {
				s := newSite(t, m, "a")
				time.Sleep(5*time.Second + off) // at any time between two refreshes of the session
				before, err := m.Node("c").Lock(t.Context(), "job")
				must(t, err)
				time.AfterFunc(2*off, func() { _ = before.Unlock(context.Background()) })
				l, err := s.c.Lock(t.Context(), "job", LockOptions{MinHold: 8 * time.Second, Wait: time.Minute})
				must(t, err)
				m.Crash("a")
				next, err := m.Node("b").Lock(t.Context(), "job")
				must(t, err)
				if early := time.Until(l.Deadline); early > 0 {
					t.Errorf("%v, %v: b has the key %v before the deadline told to a's client", latency, off, early)
				}
				must(t, next.Unlock(t.Context()))
			}, meshtest.WithLatency(latency))
		}
	}
}

// TestAShortLockWithALongHoldIsGrantedOverASlowNetwork: its votes are older than a quarter of its
// ttl, and the client is told a deadline that allows for that.
func TestAShortLockWithALongHoldIsGrantedOverASlowNetwork(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		time.Sleep(5 * time.Second)
		l, err := s.c.Lock(t.Context(), "job", LockOptions{TTL: 200 * time.Millisecond, MinHold: 9 * time.Second})
		must(t, err)
		if l.LeftMS > 150 {
			t.Errorf("%d ms are left", l.LeftMS)
		}
	}, meshtest.WithLatency(30*time.Millisecond))
}

// TestAnExtensionAfterMaxTTLWasLowered: an extension without a ttl is no longer than the voters
// keep the key by now.
func TestAnExtensionAfterMaxTTLWasLowered(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		l, err := s.c.Lock(t.Context(), "job", LockOptions{TTL: 8 * time.Second})
		must(t, err)
		s.h.decided.at, s.h.decided.ttl = time.Now(), 2*time.Second // as if the voters had decided so
		l, err = s.c.Extend(t.Context(), l.ID, 0)
		must(t, err)
		if l.TTLMS != 2000 {
			t.Errorf("extended by %d ms", l.TTLMS)
		}
	})
}

// TestAMaxTTLLoweredJustNowCounts: a handler that hasn't noticed yet that the voters keep keys for
// less time grants and extends none for longer, and tells no deadline that they don't keep.
func TestAMaxTTLLoweredJustNowCounts(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		before := func() { s.h.decided.at, s.h.decided.ttl = time.Now(), 8*time.Second }
		before()
		wantError(t, second(s.c.Lock(t.Context(), "job", LockOptions{TTL: 8 * time.Second})), ErrRequest)
		l, err := s.c.Lock(t.Context(), "job", LockOptions{TTL: 2 * time.Second})
		must(t, err)
		s.h.leases.held[l.ID].granted = 8 * time.Second // as if granted before
		before()
		wantError(t, second(s.c.Extend(t.Context(), l.ID, 8*time.Second)), ErrRequest)
		l, err = s.c.Lease(t.Context(), l.ID)
		must(t, err)
		time.Sleep(time.Second) // told, and the node keeps the key up beyond the voters' promise
		m.Crash("a")
		next, err := m.Node("b").Lock(t.Context(), "job")
		must(t, err)
		if early := time.Until(l.Deadline); early > 0 {
			t.Errorf("b has the key %v before the deadline told to a's client", early)
		}
		must(t, next.Unlock(t.Context()))
	}, meshtest.WithMaxTTL(3*time.Second), meshtest.WithDynamicMembership())
}

// TestAnExtensionIsAsLongAsTheLease: an extension may be as long as the lease was at its grant,
// though the extension before was shorter; the error for a longer extension says what to do.
func TestAnExtensionIsAsLongAsTheLease(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		l, err := s.c.Lock(t.Context(), "job", LockOptions{TTL: 3 * time.Second})
		must(t, err)
		for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 0} {
			must(t, second(s.c.Extend(t.Context(), l.ID, ttl)))
		}
		_, err = s.c.Extend(t.Context(), l.ID, 4*time.Second)
		wantError(t, err, ErrRequest)
		if err == nil {
			return
		}
		for _, part := range []string{"4s is longer than the 3s", "take the lock with the longest ttl"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q isn't in %q", part, err)
			}
		}
	})
}

// TestARefusalIsShort: the answer to a refused request names some holders and waiters of a crowded
// key, and counts the others.
func TestARefusalIsShort(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		value := lockmesh.WithValue(bytes.Repeat([]byte{1}, lockmesh.MaxValueLen))
		for range 20 {
			must(t, second(m.Node("b").RLock(ctx, "job", value)))
		}
		for range 30 {
			go func() { _, _ = m.Node("c").Lock(ctx, "job", value) }()
		}
		for {
			lock, err := s.c.Inspect(ctx, "job")
			must(t, err)
			if len(lock.Holders) == 20 && len(lock.Waiters) == 30 && lock.MoreHolders == 0 && lock.MoreWaiters == 0 {
				break
			}
			time.Sleep(time.Second)
		}
		for _, refused := range []error{second(s.c.Lock(ctx, "job", LockOptions{})), second(s.c.Hold(ctx, "job", LockOptions{}))} {
			var e *Error
			if !errors.As(refused, &e) || e.Lock == nil {
				t.Fatalf("refused with %v", refused)
			}
			l := e.Lock
			if len(l.Holders) != 16 || l.MoreHolders != 4 || len(l.Waiters) != 16 || l.MoreWaiters != 14 {
				t.Errorf("%d holders and %d more, %d waiters and %d more", len(l.Holders), l.MoreHolders, len(l.Waiters), l.MoreWaiters)
			}
			if l.Holders[0].Node != "b" || len(l.Holders[0].Value) != lockmesh.MaxValueLen {
				t.Errorf("the first holder is %+v", l.Holders[0])
			}
			text, err := json.Marshal(e)
			must(t, err)
			if len(text) > 7*lockmesh.MaxValueLen {
				t.Errorf("the answer has %d bytes", len(text))
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestALeaseThatIsntExtendedEnds(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		l, err := s.c.Lock(t.Context(), "job", LockOptions{})
		must(t, err)
		if l.TTLMS != lockmesh.DefaultMaxTTL.Milliseconds() {
			t.Errorf("without a ttl, the lease lasts for %d ms", l.TTLMS)
		}
		time.Sleep(lockmesh.DefaultMaxTTL + time.Second)
		_, err = s.c.Lease(t.Context(), l.ID)
		wantError(t, err, lockmesh.ErrLost)
		if n := s.h.slots.taken(); n != 0 {
			t.Errorf("%d leases are counted", n)
		}
		must(t, second(m.Node("b").TryLock(t.Context(), "job")))
	})
}

func TestALeaseAboveTheMaximumIsRefused(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		_, err := s.c.Lock(t.Context(), "job", LockOptions{TTL: lockmesh.DefaultMaxTTL + 1})
		wantError(t, err, ErrRequest)
		l, err := s.c.Lock(t.Context(), "job", LockOptions{})
		must(t, err)
		_, err = s.c.Extend(t.Context(), l.ID, time.Hour)
		wantError(t, err, ErrRequest)
		_, err = s.c.Hold(t.Context(), "other", LockOptions{TTL: time.Hour})
		wantError(t, err, ErrRequest)
	})
}

func TestModes(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		for range 2 {
			l, err := s.c.Lock(ctx, "read", LockOptions{Mode: lockmesh.ModeShared})
			must(t, err)
			if l.Mode != "shared" {
				t.Errorf("mode %q", l.Mode)
			}
		}
		slots := map[int]bool{}
		for range 2 {
			l, err := s.c.Lock(ctx, "permits", LockOptions{Permits: 2})
			must(t, err)
			if slots[l.Slot] = true; l.Mode != "permit" {
				t.Errorf("mode %q", l.Mode)
			}
		}
		if !slots[1] || !slots[2] {
			t.Errorf("the slots are %v", slots)
		}
		_, err := s.c.Lock(ctx, "permits", LockOptions{Permits: 2})
		wantError(t, err, lockmesh.ErrHeld)
		_, err = s.c.Lock(ctx, "permits", LockOptions{Permits: 3})
		wantError(t, err, lockmesh.ErrPermits)
		for _, o := range []LockOptions{{Mode: lockmesh.ModePermit}, {Mode: lockmesh.ModeShared, Permits: 2}, {Permits: -1}, {Permits: 1025}, {Wait: 25 * time.Hour}, {Wait: -1}} {
			_, err = s.c.Lock(ctx, "bad", o)
			wantError(t, err, ErrRequest)
		}
	})
}

func TestAClientThatWaits(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		held, err := m.Node("b").Lock(t.Context(), "job")
		must(t, err)

		// The client gets the key at the release.
		got := make(chan error, 1)
		go func() {
			got <- second(s.c.Lock(t.Context(), "job", LockOptions{Wait: time.Hour, Revoke: true, Reason: "please"}))
		}()
		if r := <-held.Revoked(); r.Node != "a" || r.Reason != "please" {
			t.Errorf("the holder is asked for the key by %+v", r)
		}
		time.Sleep(30 * time.Minute)
		must(t, held.Unlock(t.Context()))
		must(t, <-got)

		// The client waits no longer than asked for.
		from := time.Now()
		_, err = s.c.Lock(t.Context(), "job", LockOptions{Wait: 3 * time.Second})
		wantError(t, err, lockmesh.ErrHeld, context.DeadlineExceeded)
		// The error names the holder; the inspection takes a moment.
		if d := time.Since(from).Round(10 * time.Millisecond); d != 3*time.Second {
			t.Errorf("it waited %v", d)
		}
	})
}

func TestAClientThatVanishesWhileItWaits(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		held, err := m.Node("b").Lock(t.Context(), "job")
		must(t, err)
		for _, path := range []string{"/v1/locks/job", "/v1/hold/job"} {
			for _, ahead := range []string{"", "\r\n", request("GET /v1/status") + "\n"} { // sent meanwhile
				conn := s.raw(request("PUT "+path+"?wait=1h") + "\n")
				s.becomes("job", 1, 1)
				must(t, second(io.WriteString(conn, ahead)))
				synctest.Wait()
				conn.Close()
				s.becomes("job", 1, 0)
			}
		}
		must(t, held.Unlock(t.Context()))
		s.becomes("job", 0, 0) // neither has left a lease behind
		if leases, holds := s.h.slots.taken(), s.h.holds.taken(); leases != 0 || holds != 0 {
			t.Errorf("%d leases and %d holds are counted", leases, holds)
		}
	})
}

// TestRequestsBehindAWait: requests sent while another waits are answered in their order.
func TestRequestsBehindAWait(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for _, padding := range []int{0, 1, 4096, aheadMost - 300} {
			held, err := m.Node("b").Lock(t.Context(), "job")
			must(t, err)
			conn := s.raw(request("PUT /v1/locks/job?ttl=1s&wait=1h") + "\n")
			s.becomes("job", 1, 1)
			next := request("GET /v1/locks/next") + "X-Padding: " + strings.Repeat("x", padding) + "\n\n"
			last := request("PUT /v1/locks/last?ttl=1s") + "Content-Length: 0\n\n"
			go func() { _, _ = io.WriteString(conn, strings.ReplaceAll(next+last, "\n", "\r\n")) }()
			synctest.Wait()
			must(t, held.Unlock(t.Context()))
			answers := bufio.NewReader(conn)
			for _, want := range []string{`"key":"job"`, `"key":"next"`, `"key":"last"`} {
				if status, body := answer(t, answers); status != http.StatusOK || !strings.Contains(body, want) {
					t.Errorf("with %d bytes, the answer is %d %s, not %s", padding, status, body, want)
				}
			}
			must(t, conn.Close())
			s.becomes("job", 0, 0)
			s.becomes("last", 0, 0)
		}
	})
}

// TestAClientWithTooMuchBehindAWaitIsCut: where the client is gone, the end of its connection lies
// behind these bytes, and the request would wait on.
func TestAClientWithTooMuchBehindAWaitIsCut(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		held, err := m.Node("b").Lock(t.Context(), "job")
		must(t, err)
		for _, path := range []string{"/v1/locks/job?ttl=10s&wait=1h", "/v1/hold/job?wait=1h"} {
			conn := s.raw(request("PUT "+path) + "\n")
			s.becomes("job", 1, 1)
			go func() { _, _ = io.WriteString(conn, strings.Repeat("x", aheadMost+5000)) }()
			s.becomes("job", 1, 0)
			must(t, conn.Close())
		}
		must(t, held.Unlock(t.Context()))
		s.becomes("job", 0, 0)
	})
}

// TestARequestInParts: where a part leaves room for a byte in the HTTP server's buffer, the server
// reads a single byte of the request, and this read is no watch.
func TestARequestInParts(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		conn := s.raw("")
		answers := bufio.NewReader(conn)
		text := strings.ReplaceAll(request("GET /v1/locks/job?value="+strings.Repeat("x", 5000))+"\n", "\n", "\r\n")
		from := time.Now()
		for _, first := range []int{4094, 4095, 4096, 4095} {
			for _, part := range []string{text[:first], text[first:]} {
				must(t, second(io.WriteString(conn, part)))
				synctest.Wait()
			}
			if status, body := answer(t, answers); status != http.StatusBadRequest || !strings.Contains(body, "no parameter") {
				t.Errorf("%d bytes first: %d %s", first, status, body)
			}
		}
		if waited := time.Since(from); waited >= headerTime {
			t.Errorf("the answers took %v", waited)
		}
	})
}

// TestAClientThatDoesntReadItsLease: a client that is gone, or stuck, when the answer is sent
// doesn't learn of its lease, so the server releases the lease at once.
func TestAClientThatDoesntReadItsLease(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a", AllowLocks(10*time.Minute))
		s.raw(request("PUT /v1/locks/job?ttl=10m") + "\n") // nothing reads the answer
		s.becomes("job", 1, 0)
		time.Sleep(writeTime + time.Second)
		s.becomes("job", 0, 0)
	}, meshtest.WithMaxTTL(10*time.Minute))
}

func TestTheNumberOfLeasesIsBounded(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		s.h.slots.most, s.h.holds.most = 2, 1
		ctx := t.Context()
		l, err := s.c.Lock(ctx, "k1", LockOptions{})
		must(t, err)
		waits := make(chan error, 1)
		go func() { waits <- second(s.c.Lock(ctx, "k1", LockOptions{Wait: time.Minute})) }()
		s.becomes("k1", 1, 1) // a waiting request counts, too
		_, err = s.c.Lock(ctx, "k2", LockOptions{})
		wantError(t, err, ErrLimit)
		must(t, s.c.Unlock(ctx, l.ID))
		must(t, <-waits)
		must(t, second(s.c.Lock(ctx, "k2", LockOptions{})))

		hold, err := s.c.Hold(ctx, "h1", LockOptions{})
		must(t, err)
		_, err = s.c.Hold(ctx, "h2", LockOptions{})
		wantError(t, err, ErrLimit)
		must(t, hold.Release())
		synctest.Wait()
		hold, err = s.c.Hold(ctx, "h2", LockOptions{})
		must(t, err)
		must(t, hold.Release())
	})
}

// TestEndedLeasesAreForgotten: the memory of ended leases is bounded.
func TestEndedLeasesAreForgotten(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		var ids []string
		for range maxEnded + 2 {
			lease, err := m.Node("a").Lock(ctx, "k")
			must(t, err)
			c := s.h.leases.add(lease, time.Second, func() {})
			ids = append(ids, c.id)
			must(t, lease.Unlock(ctx))
			synctest.Wait()
		}
		if n := len(s.h.leases.ended); n != maxEnded || len(s.h.leases.held) != 0 {
			t.Errorf("%d ended leases are kept, and %d held ones", n, len(s.h.leases.held))
		}
		wantError(t, s.c.Unlock(ctx, ids[1]), ErrUnknownLease)
		wantError(t, s.c.Unlock(ctx, ids[2]), lockmesh.ErrReleased)
	})
}

// TestLocksAreOff: without AllowLocks no client acquires a lock.
func TestLocksAreOff(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		s.h.maxTTL = 0 // as without AllowLocks
		_, err := s.c.Lock(t.Context(), "k", LockOptions{})
		wantError(t, err, ErrForbidden)
		_, err = s.c.Hold(t.Context(), "k", LockOptions{})
		wantError(t, err, ErrForbidden)
		if err == nil || !strings.Contains(err.Error(), "AllowLocks") {
			t.Errorf("the error doesn't say what to do: %v", err)
		}
	})
}
