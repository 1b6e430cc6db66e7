package certmagiclock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/lockmesh/lockmesh"
	certmagiclock "github.com/lockmesh/lockmesh/contrib/certmagic"
	"github.com/lockmesh/lockmesh/internal/adaptertest"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/meshtest"
)

// eventually waits until a condition holds, and may be called from any goroutine.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Patience)
	defer cancel()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Errorf("never came: %s", what)
			return
		}
	}
}

// waiting counts the nodes waiting for the lock of a name.
func waiting(nodes []*lockmesh.Mesh, name string) int {
	n := 0
	for _, node := range nodes {
		for _, w := range node.Status().Waiting {
			if w.Key == "certmagic/"+name {
				n++
			}
		}
	}
	return n
}

// together runs a function on all servers at once.
func together(t *testing.T, servers []server, do func(server) error) {
	t.Helper()
	var work sync.WaitGroup
	for _, s := range servers {
		work.Go(func() {
			if err := do(s); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
}

func TestOneOfThreeServersObtainsEachCertificate(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	ca := newIssuer(t)
	ca.during = func(name string) {
		eventually(t, "the two others want it, too", func() bool { return waiting(nodes, "issue_cert_"+name) == 2 })
	}
	dir := t.TempDir()
	var servers []server
	for _, node := range nodes {
		servers = append(servers, newServer(t, node, dir, ca))
	}
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("site%d.example.com", i))
	}
	for _, name := range names {
		together(t, servers, func(s server) error { return s.ManageSync(testwait.Within(t, testwait.Patience), []string{name}) })
	}
	for _, name := range names {
		if n := ca.count(name); n != 1 {
			t.Errorf("%s was issued %d times", name, n)
		}
		served := map[string]bool{}
		for _, s := range servers {
			cert, err := s.CacheManagedCertificate(testwait.Within(t, testwait.Patience), name)
			if err != nil {
				t.Fatal(err)
			}
			served[cert.Leaf.SerialNumber.String()] = true
		}
		if len(served) != 1 {
			t.Errorf("the servers have %d different certificates for %s", len(served), name)
		}
	}
}

func TestOneOfThreeServersRenewsACertificate(t *testing.T) {
	const name = "old.example.com"
	nodes := adaptertest.Start(t, "a", "b", "c")
	ca := newIssuer(t)
	dir := t.TempDir()
	var servers []server
	for _, node := range nodes {
		servers = append(servers, newServer(t, node, dir, ca))
	}
	ca.renewsAtOnce(true)
	if err := servers[0].ObtainCertSync(testwait.Within(t, testwait.Patience), name); err != nil {
		t.Fatal(err)
	}
	ca.renewsAtOnce(false)
	ca.during = func(string) {
		eventually(t, "the two others want it, too", func() bool { return waiting(nodes, "issue_cert_"+name) == 2 })
	}
	// In the background certmagic retries, and acquires its lease before each attempt.
	together(t, servers, func(s server) error { return s.RenewCertAsync(testwait.Within(t, testwait.Patience), name, false) })
	if n := ca.count(name); n != 2 {
		t.Errorf("it was issued %d times instead of twice", n)
	}
}

// certmagic only tries to lock before a request for renewal information: a second server doesn't
// wait.
func TestOneOfThreeServersAsksForRenewalInformation(t *testing.T) {
	const name = "ari.example.com"
	nodes := adaptertest.Start(t, "a", "b", "c")
	ca := newIssuer(t)
	dir := t.TempDir()
	if err := newServer(t, nodes[0], dir, ca).ObtainCertSync(testwait.Within(t, testwait.Patience), name); err != nil {
		t.Fatal(err)
	}
	var servers []server
	for _, node := range nodes {
		servers = append(servers, newServer(t, node, dir, ca))
	}
	var managed atomic.Int32
	ca.asked = func() {
		eventually(t, "the two others go on", func() bool { return managed.Load() == 2 })
	}
	together(t, servers, func(s server) error {
		defer managed.Add(1)
		return s.ManageSync(testwait.Within(t, testwait.Patience), []string{name})
	})
	if n := ca.informed(); n != 1 {
		t.Errorf("the authority was asked %d times", n)
	}
}

func TestAServerThatDiesIsFollowedByAnother(t *testing.T) {
	const name = "site.example.com"
	nodes := adaptertest.Start(t, "a", "b", "c")
	ca := newIssuer(t)
	dir := t.TempDir()
	began, free := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	ca.during = func(string) {
		if calls.Add(1) == 1 {
			close(began)
			<-free
		}
	}
	lost := make(chan error, 1)
	dies := newServer(t, nodes[0], dir, ca, certmagiclock.WithLost(func(_ string, err error) { lost <- err }))
	ended := make(chan error, 1)
	go func() { ended <- dies.ObtainCertSync(testwait.Within(t, testwait.Patience), name) }()
	<-began
	if err := nodes[0].Close(); err != nil {
		t.Error(err)
	}
	if err := <-lost; !errors.Is(err, lockmesh.ErrLost) {
		t.Errorf("it was told %v", err)
	}
	other := newServer(t, nodes[1], dir, ca)
	if err := other.ObtainCertSync(testwait.Within(t, testwait.Patience), name); err != nil {
		t.Error(err)
	}
	if n := ca.count(name); n != 2 {
		t.Errorf("it was asked for %d times", n)
	}
	close(free)
	<-ended // the call may write late, a problem of certmagic, as the README explains
}

func TestALostLockIsRenewedOnceItIsFree(t *testing.T) {
	const name = "issue_cert_site.example.com"
	m := meshtest.New(t, 3, meshtest.WithMaxTTL(adaptertest.TTL))
	m.Ready()
	lost := make(chan string, 10)
	s := newServer(t, m.Node("a"), t.TempDir(), newIssuer(t), certmagiclock.WithLost(func(name string, _ error) { lost <- name })).storage
	if err := s.Lock(testwait.Within(t, testwait.Patience), name); err != nil {
		t.Fatal(err)
	}
	if err := s.RenewLockLease(testwait.Within(t, testwait.Patience), name, time.Hour); err != nil {
		t.Errorf("a lock that is held: %v", err)
	}

	// The majority goes away, and comes back with new incarnations of two nodes.
	m.Crash("b")
	m.Crash("c")
	if got := <-lost; got != name {
		t.Errorf("lost %q", got)
	}
	if err := s.RenewLockLease(testwait.Within(t, testwait.Patience), name, time.Hour); !errors.Is(err, lockmesh.ErrLost) || !errors.Is(err, lockmesh.ErrNoQuorum) {
		t.Errorf("without a majority: %v", err)
	}
	m.Restart("b")
	m.Restart("c")
	m.Ready()

	// Another node has the lock first.
	lease, err := m.Node("b").Lock(testwait.Within(t, testwait.Patience), "certmagic/"+name)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RenewLockLease(testwait.Within(t, testwait.Patience), name, time.Hour); !errors.Is(err, lockmesh.ErrLost) || !errors.Is(err, lockmesh.ErrHeld) {
		t.Errorf("a lock that another has now: %v", err)
	}
	if err := lease.Unlock(testwait.Within(t, testwait.Patience)); err != nil {
		t.Error(err)
	}
	if err := s.RenewLockLease(testwait.Within(t, testwait.Patience), name, time.Hour); err != nil {
		t.Errorf("a lock that is free again: %v", err)
	}
	if ok, err := newServer(t, m.Node("b"), t.TempDir(), newIssuer(t)).storage.TryLock(testwait.Within(t, testwait.Patience), name); ok || err != nil {
		t.Errorf("the renewed lock doesn't lock others out: %v, %v", ok, err)
	}
	if err := s.Unlock(testwait.Within(t, testwait.Patience), name); err != nil {
		t.Errorf("a renewed lock: %v", err)
	}
}

// TestALostLockIsUnlocked: certmagic keeps each lock whose Unlock returns an error, and unlocks
// the lock again at the end of the process.
func TestALostLockIsUnlocked(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	lost := make(chan error, 1)
	s := certmagiclock.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, nodes[0], certmagiclock.WithLost(func(_ string, err error) { lost <- err }))
	if err := s.Lock(testwait.Within(t, testwait.Patience), "x"); err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].Close(); err != nil {
		t.Error(err)
	}
	if err := <-lost; !errors.Is(err, lockmesh.ErrLost) {
		t.Errorf("the loss was reported as %v", err)
	}
	if err := s.Unlock(t.Context(), "x"); err != nil {
		t.Errorf("unlocking a lost lock: %v", err)
	}
	if ok, err := s.TryLock(t.Context(), "x"); ok || !errors.Is(err, lockmesh.ErrClosed) {
		t.Errorf("after the mesh has ended: %v, %v", ok, err)
	}
}

func TestLocksWithinOneProcess(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	s := certmagiclock.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, nodes[0], certmagiclock.WithPrefix("p/"))
	if err := s.Unlock(t.Context(), "x"); !errors.Is(err, certmagiclock.ErrNotLocked) {
		t.Errorf("unlocking what isn't locked: %v", err)
	}
	if err := s.RenewLockLease(t.Context(), "x", 0); !errors.Is(err, certmagiclock.ErrNotLocked) {
		t.Errorf("renewing what isn't locked: %v", err)
	}
	// Names come from clients, so names needn't be valid keys.
	for _, name := range []string{"x", "", strings.Repeat("long.", 200), "with\na break", "\xff"} {
		if err := s.Lock(testwait.Within(t, testwait.Patience), name); err != nil {
			t.Fatal(err)
		}
		if ok, err := s.TryLock(testwait.Within(t, testwait.Patience), name); ok || err != nil {
			t.Errorf("%.20q is locked twice: %v, %v", name, ok, err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Lock(canceled, name); !errors.Is(err, context.Canceled) || !errors.Is(err, lockmesh.ErrHeld) {
			t.Errorf("%.20q: waiting with a context that has ended: %v", name, err)
		}
		if err := s.Unlock(canceled, name); err != nil {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	var holders atomic.Int32
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 5 {
				if err := s.Lock(testwait.Within(t, testwait.Patience), "x"); err != nil {
					t.Error(err)
					return
				}
				if holders.Add(1) != 1 {
					t.Error("two have it at a time")
				}
				holders.Add(-1)
				if err := s.Unlock(testwait.Within(t, testwait.Patience), "x"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
}
