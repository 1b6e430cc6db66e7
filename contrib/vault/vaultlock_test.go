package vaultlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/sdk/physical"
	"github.com/hashicorp/vault/sdk/physical/file"
	"github.com/hashicorp/vault/sdk/physical/inmem"

	"github.com/lockmesh/lockmesh"
	vaultlock "github.com/lockmesh/lockmesh/contrib/vault"
	"github.com/lockmesh/lockmesh/internal/adaptertest"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

const key = "core/lock" // the lock of Vault's active node

func inMemory(t *testing.T) physical.Backend {
	t.Helper()
	b, err := inmem.NewInmem(nil, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func inFiles(t *testing.T, dir string) physical.Backend {
	t.Helper()
	b, err := file.NewFileBackend(map[string]string{"path": dir}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func lockWith(t *testing.T, b physical.HABackend, value string) *vaultlock.Lock {
	t.Helper()
	l, err := b.LockWith(key, value)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*vaultlock.Lock)
}

// lock locks, or stops when the test has waited for too long.
func lock(t *testing.T, l *vaultlock.Lock) <-chan struct{} {
	t.Helper()
	lost, err := l.Lock(testwait.Within(t, testwait.Patience).Done())
	if err != nil || lost == nil {
		t.Fatalf("locking: %v, %v", lost, err)
	}
	return lost
}

func wantValue(t *testing.T, l physical.Lock, held bool, value string) {
	t.Helper()
	gotHeld, got, err := l.Value()
	if err != nil || gotHeld != held || got != value {
		t.Errorf("the lock's value is %q (held: %v, %v) instead of %q (held: %v)", got, gotHeld, err, value, held)
	}
}

// Vault's own test of HA backends: two backends are two nodes of a mesh with a shared storage.
func TestVaultsSuite(t *testing.T) {
	t.Run("storage in memory", func(t *testing.T) {
		nodes := adaptertest.Start(t, "a", "b", "c")
		storage := inMemory(t)
		physical.ExerciseHABackend(t, vaultlock.New(nodes[0], storage), vaultlock.New(nodes[1], storage))
	})
	t.Run("storage in files", func(t *testing.T) {
		nodes := adaptertest.Start(t, "a", "b", "c")
		dir := t.TempDir()
		physical.ExerciseHABackend(t, vaultlock.New(nodes[0], inFiles(t, dir)), vaultlock.New(nodes[1], inFiles(t, dir)))
	})
	t.Run("one node", func(t *testing.T) {
		nodes := adaptertest.Start(t, "a")
		b := vaultlock.New(nodes[0], inMemory(t))
		physical.ExerciseHABackend(t, b, b)
	})
}

// Vault's own test of storages: all entries but locks go through, and ended locks leave no entry
// behind.
func TestVaultsSuiteForStorages(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	b := vaultlock.New(nodes[0], inMemory(t))
	l := lockWith(t, b, "a")
	lock(t, l)
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
	physical.ExerciseBackend(t, b)
	physical.ExerciseBackend_ListPrefix(t, b)
}

func TestALeaderThatDiesIsTold(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	storage := inMemory(t)
	first := lockWith(t, vaultlock.New(nodes[0], storage), "a")
	lost := lock(t, first)
	token := first.Token()
	reader := lockWith(t, vaultlock.New(nodes[2], storage), "read")
	wantValue(t, reader, true, "a")

	if err := nodes[0].Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-lost:
	default:
		t.Error("the leader isn't told")
	}
	if first.Token() != 0 {
		t.Error("the leader still has a token")
	}
	second := lockWith(t, vaultlock.New(nodes[1], storage), "b")
	lock(t, second)
	wantValue(t, reader, true, "b")
	if second.Token() <= token {
		t.Errorf("token %d follows %d", second.Token(), token)
	}
	if err := first.Unlock(); !errors.Is(err, lockmesh.ErrLost) {
		t.Errorf("unlocking what was lost: %v", err)
	}
	wantValue(t, reader, true, "b")
	if err := second.Unlock(); err != nil {
		t.Error(err)
	}
	wantValue(t, reader, false, "")
}

func TestALeaderWithoutAMajorityIsTold(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	b := vaultlock.New(nodes[0], inMemory(t))
	l := lockWith(t, b, "a")
	lost := lock(t, l)
	for _, node := range nodes[1:] {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-lost:
	case <-testwait.Within(t, testwait.Patience).Done():
		t.Fatal("the leader isn't told")
	}
	if _, _, err := l.Value(); !errors.Is(err, lockmesh.ErrNoQuorum) {
		t.Errorf("whether it is held can't be known, but: %v", err)
	}

	// A waiting standby can be stopped.
	stop, ended := make(chan struct{}), make(chan error, 1)
	standby := lockWith(t, b, "standby")
	go func() {
		lost, err := standby.Lock(stop)
		if lost != nil {
			t.Error("it got the lock")
		}
		ended <- err
	}()
	testwait.Until(t, "it waits", func() bool { return len(nodes[0].Status().Waiting) == 1 })
	if _, err := standby.Lock(nil); !errors.Is(err, vaultlock.ErrLocked) {
		t.Errorf("locking twice: %v", err)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Errorf("stopped: %v", err)
	}
}

// A dead leader's value doesn't outlive its lease.
func TestAValueEndsWithItsLease(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	storage := inMemory(t)
	lock(t, lockWith(t, vaultlock.New(nodes[0], storage), "a"))
	if err := nodes[0].Close(); err != nil {
		t.Error(err)
	}
	reader := lockWith(t, vaultlock.New(nodes[1], storage), "read")
	testwait.Until(t, "it isn't held any more", func() bool {
		held, _, err := reader.Value()
		return err == nil && !held
	})
}

// faulty is a storage with writes that hang or fail.
type faulty struct {
	physical.Backend
	put func(context.Context) error
}

func (f *faulty) Put(ctx context.Context, e *physical.Entry) error {
	if err := f.put(ctx); err != nil {
		return err
	}
	return f.Backend.Put(context.WithoutCancel(ctx), e)
}

func TestAValueThatIsWrittenLateIsNotBelieved(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	storage := inMemory(t)
	began, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	slow := &faulty{storage, func(context.Context) error { // and ignores its context
		close(began)
		<-free
		return nil
	}}
	first := lockWith(t, vaultlock.New(nodes[0], slow), "a")
	go func() {
		_, err := first.Lock(nil)
		ended <- err
	}()
	<-began
	if err := nodes[0].Close(); err != nil {
		t.Error(err)
	}
	second := lockWith(t, vaultlock.New(nodes[1], storage), "b")
	lock(t, second)
	close(free)
	if err := <-ended; !errors.Is(err, lockmesh.ErrLost) {
		t.Errorf("the first ended with %v", err)
	}
	// The first holder has deleted its entry; if the holder had died instead, the entry would be
	// there.
	if err := storage.Put(t.Context(), &physical.Entry{Key: key + "/00000000000000000001", Value: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	wantValue(t, lockWith(t, vaultlock.New(nodes[2], storage), "read"), true, "b")
}

func TestWithoutAStoredValueNothingIsHeld(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b")
	storage := inMemory(t)
	broken := errors.New("the disk is full")
	l := lockWith(t, vaultlock.New(nodes[0], &faulty{storage, func(context.Context) error { return broken }}), "a")
	if _, err := l.Lock(nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := l.Unlock(); !errors.Is(err, vaultlock.ErrNotLocked) {
		t.Errorf("got %v", err)
	}
	other := lockWith(t, vaultlock.New(nodes[1], storage), "b")
	lock(t, other)
	if err := other.Unlock(); err != nil {
		t.Error(err)
	}
}

// A storage that ignores its context finishes the write; but a caller that has stopped waiting
// doesn't get the lock.
func TestALockThatIsStoppedWhileItsValueIsStoredIsNotHeld(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b")
	storage := inMemory(t)
	stop := make(chan struct{})
	l := lockWith(t, vaultlock.New(nodes[0], &faulty{storage, func(context.Context) error { close(stop); return nil }}), "a")
	if lost, err := l.Lock(stop); lost != nil || err != nil {
		t.Errorf("got %v, %v", lost, err)
	}
	wantValue(t, lockWith(t, vaultlock.New(nodes[1], storage), "read"), false, "")
	other := lockWith(t, vaultlock.New(nodes[1], storage), "b")
	lock(t, other)
	if err := other.Unlock(); err != nil {
		t.Error(err)
	}
}

// Standbys request the value again and again. If such a request took a free lock, a standby that
// dies meanwhile would block the lock for a TTL.
func TestAskingForTheValueTakesNothing(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b")
	b := vaultlock.New(nodes[0], inMemory(t))
	watch, err := nodes[1].Watch(testwait.Within(t, testwait.Patience), "vault/"+key)
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, lockWith(t, b, "read"), false, "")
	l := lockWith(t, b, "a")
	lock(t, l)
	for event := range watch.Events() {
		if event.Kind == lockmesh.EventGranted {
			if event.Token != l.Token() {
				t.Errorf("the lease with token %d comes before that of the lock, %d", event.Token, l.Token())
			}
			return
		}
	}
	t.Error(watch.Err())
}

func TestALeaseThatTheStorageFindsOldIsGivenBack(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	storage := inMemory(t)
	b := vaultlock.New(nodes[0], storage)
	late := key + "/0" + strings.Repeat("9", 19) // larger than any token of a present-day mesh
	if err := storage.Put(t.Context(), &physical.Entry{Key: late, Value: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	l := lockWith(t, b, "a")
	if _, err := l.Lock(nil); !errors.Is(err, vaultlock.ErrToken) || errors.Is(err, lockmesh.ErrLost) {
		t.Errorf("got %v", err)
	}
	if err := storage.Delete(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	lock(t, l)
	wantValue(t, l, true, "a")
}

func TestNamesOfLocks(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	b := vaultlock.New(nodes[0], inMemory(t), vaultlock.WithPrefix("cluster-1/"))
	for _, name := range []string{"", "core/"} {
		if _, err := b.LockWith(name, "x"); err == nil {
			t.Errorf("%q names a lock", name)
		}
	}
	l, err := b.LockWith("a\nb", "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(nil); !errors.Is(err, lockmesh.ErrKey) {
		t.Errorf("a name that is no key: %v", err)
	}
	lock(t, lockWith(t, b, "x"))
	if _, err := nodes[0].TryLock(testwait.Within(t, testwait.Patience), "cluster-1/"+key); !errors.Is(err, lockmesh.ErrHeld) {
		t.Errorf("the prefix isn't used: %v", err)
	}
	if !b.HAEnabled() {
		t.Error("HA is off")
	}
}

// hanging is the storage of a server whose connection to the storage hangs. Its calls end with
// their context, or only with the test.
type hanging struct {
	physical.Backend
	ignores context.Context // ends the calls that ignore their context; nil if calls heed theirs
}

func (h hanging) hang(ctx context.Context) error {
	if h.ignores != nil {
		ctx = h.ignores
	}
	<-ctx.Done()
	return ctx.Err()
}

func (h hanging) Put(ctx context.Context, _ *physical.Entry) error { return h.hang(ctx) }
func (h hanging) Delete(ctx context.Context, _ string) error       { return h.hang(ctx) }

// A server whose storage hangs doesn't keep the lock from a server whose storage works.
func TestAServerWithAHangingStorageGivesTheLockUp(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	for name, ignores := range map[string]context.Context{"its calls heed their context": nil, "its calls ignore their context": t.Context()} {
		t.Run(name, func(t *testing.T) {
			storage := inMemory(t)
			a := lockWith(t, vaultlock.New(nodes[0], hanging{storage, ignores}, vaultlock.WithPatience(50*time.Millisecond)), "a")
			if lost, err := a.Lock(nil); lost != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Lock: %v, %v", lost, err)
			}
			b := lockWith(t, vaultlock.New(nodes[1], storage), "b")
			if lost, err := b.Lock(nil); lost == nil {
				t.Fatal(err)
			}
			if err := b.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}
