package lockmesh_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh"
)

// alone returns a mesh of a single node, so that the examples run fast. The calls are the same in
// any mesh.
var alone = sync.OnceValue(func() *lockmesh.Mesh {
	mesh, err := lockmesh.Join(context.Background(), lockmesh.Config{
		Name: "edge-1", Bind: "127.0.0.1:0", Expect: 1, Logger: slog.New(slog.DiscardHandler),
		MaxTTL: 2 * time.Second, TTL: time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := mesh.Ready(context.Background()); err != nil {
		log.Fatal(err)
	}
	lockmesh.AtExit(func() { _ = mesh.Close() })
	return mesh
})

// Settled is the gate of a rolling restart: a deployment waits for Settled before the next node is
// stopped.
func ExampleMesh_Settled() {
	mesh := alone()
	var started atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		started.Store(mesh.Settled(context.Background()) == nil)
	}()
	<-done
	fmt.Println("another node may be restarted:", started.Load())
	// Output: another node may be restarted: true
}

// Readers share the key; a writer excludes all others.
func ExampleMesh_RLock() {
	ctx, mesh := context.Background(), alone()
	one, _ := mesh.RLock(ctx, "catalogue")
	two, _ := mesh.RLock(ctx, "catalogue")
	fmt.Println(one.Mode(), two.Mode())
	_, err := mesh.TryLock(ctx, "catalogue")
	fmt.Println(errors.Is(err, lockmesh.ErrHeld))
	_ = two.Unlock(ctx)
	_ = one.Unlock(ctx)
	// Output:
	// shared shared
	// true
}

// At most two holders at a time, in all processes together.
func ExampleMesh_Semaphore() {
	ctx, mesh := context.Background(), alone()
	uploads := mesh.Semaphore("uploads", 2)
	one, _ := uploads.Acquire(ctx)
	two, _ := uploads.Acquire(ctx)
	_, err := uploads.TryAcquire(ctx)
	fmt.Println(one.Slot() != two.Slot(), errors.Is(err, lockmesh.ErrHeld))
	_ = one.Unlock(ctx)
	_ = two.Unlock(ctx)
	// Output: true true
}

// LockAll locks two accounts without a deadlock, even if another process transfers in the other
// direction at the same time.
func ExampleMesh_LockAll() {
	ctx, mesh := context.Background(), alone()
	all, err := mesh.LockAll(ctx, "account/b", "account/a")
	if err != nil {
		log.Print(err)
		return
	}
	for _, lease := range all.Leases() {
		fmt.Println(lease.Key(), lease.Token() == all.Token(lease.Key()))
	}
	_ = all.Unlock(ctx)
	// Output:
	// account/a true
	// account/b true
}

// A function may lock a key that its caller has locked already, with the lease's context.
func ExampleLease_Context() {
	mesh := alone()
	charge := func(ctx context.Context) {
		lease, _ := mesh.Lock(ctx, "invoice/7")
		defer lease.Unlock(context.Background())
		fmt.Println("depth", lease.Depth())
	}
	outer, _ := mesh.Lock(context.Background(), "invoice/7")
	charge(outer.Context())
	_ = outer.Unlock(context.Background())
	charge(context.Background())
	// Output:
	// depth 2
	// depth 1
}

// If the node dies, this lease ends sooner than the node's other leases.
func ExampleWithTTL() {
	ctx := context.Background()
	lease, _ := alone().Lock(ctx, "worker/7", lockmesh.WithTTL(300*time.Millisecond))
	fmt.Println(time.Until(lease.Deadline()) <= 300*time.Millisecond)
	_ = lease.Unlock(ctx)
	// Output: true
}

// The lease ends by itself: a process that hangs, or forgets to unlock, blocks the key no longer.
func ExampleWithoutRenewal() {
	lease, _ := alone().Lock(context.Background(), "report", lockmesh.WithTTL(300*time.Millisecond), lockmesh.WithoutRenewal())
	<-lease.Done()
	fmt.Println(errors.Is(lease.Err(), lockmesh.ErrLost))
	// Output: true
}

// A job started by many nodes on the hour runs once, even if the job takes no time.
func ExampleWithMinHold() {
	ctx, mesh := context.Background(), alone()
	lease, _ := mesh.Lock(ctx, "hourly/12:00", lockmesh.WithMinHold(time.Second))
	_ = lease.Unlock(ctx) // the job is done
	_, err := mesh.TryLock(ctx, "hourly/12:00")
	fmt.Println(errors.Is(err, lockmesh.ErrHeld))
	// Output: true
}

// After a crash of the holder the key rests, so that writes still under way may arrive. After an
// Unlock the key is free at once.
func ExampleWithDelay() {
	ctx, mesh := context.Background(), alone()
	lease, _ := mesh.Lock(ctx, "disk", lockmesh.WithDelay(500*time.Millisecond))
	_ = lease.Unlock(ctx)
	lease, err := mesh.TryLock(ctx, "disk")
	fmt.Println(err)
	_ = lease.Unlock(ctx)
	// Output: <nil>
}

// The call gives up after a while, even if its context goes on.
func ExampleWithWait() {
	ctx, mesh := context.Background(), alone()
	lease, _ := mesh.Lock(ctx, "door")
	_, err := mesh.Lock(ctx, "door", lockmesh.WithWait(50*time.Millisecond))
	fmt.Println(errors.Is(err, lockmesh.ErrHeld), errors.Is(err, context.DeadlineExceeded))
	_ = lease.Unlock(ctx)
	// Output: true true
}

// Inspect shows the holders of a key, with their values.
func ExampleMesh_Inspect() {
	ctx, mesh := context.Background(), alone()
	lease, _ := mesh.Lock(ctx, "shard/3", lockmesh.WithValue([]byte("10.0.0.7:80")))
	_ = lease.SetValue(ctx, []byte("10.0.0.7:443"))
	info, _ := mesh.Inspect(ctx, "shard/3")
	for _, h := range info.Holders {
		fmt.Printf("%s, %s, %s\n", h.Node, h.Mode, h.Value)
	}
	_ = lease.Unlock(ctx)
	// Output: edge-1, exclusive, 10.0.0.7:443
}

// Revoke asks the holder to release the key.
func ExampleMesh_Revoke() {
	ctx, mesh := context.Background(), alone()
	lease, _ := mesh.Lock(ctx, "batch")
	_ = mesh.Revoke(ctx, "batch", lockmesh.WithReason("a deploy"))
	wish := <-lease.Revoked()
	fmt.Printf("%s wants it back: %s\n", wish.Node, wish.Reason)
	_ = lease.Unlock(ctx)
	// Output: edge-1 wants it back: a deploy
}

// An operator ends the lease of a hanging holder. The token names the lease, and the lease's Err
// tells the holder of the eviction.
func ExampleMesh_Evict() {
	ctx, mesh := context.Background(), alone()
	lease, _ := mesh.Lock(ctx, "batch")
	info, _ := mesh.Inspect(ctx, "batch")
	_ = mesh.Evict(ctx, "batch", info.Holders[0].Token, lockmesh.WithReason("it hangs"))
	<-lease.Done()
	fmt.Println(lease.Err())
	// Output: lockmesh: lease "batch": the lease was evicted: by edge-1: it hangs: the lease is lost
}

// A job of a known duration takes a lease of this length, and moves the end if more time is needed.
func ExampleLease_Extend() {
	ctx := context.Background()
	lease, _ := alone().Lock(ctx, "report", lockmesh.WithTTL(time.Minute), lockmesh.WithoutRenewal())
	_ = lease.Extend(ctx, time.Hour)
	fmt.Println(time.Until(lease.Deadline()).Round(time.Minute))
	_ = lease.Unlock(ctx)
	// Output: 1h0m0s
}

// A reader that finds something to write becomes the writer, without a release in between.
func ExampleLease_Upgrade() {
	ctx := context.Background()
	lease, _ := alone().RLock(ctx, "index")
	token := lease.Token()
	if err := lease.Upgrade(ctx); errors.Is(err, lockmesh.ErrClash) {
		log.Print("another reader upgrades; unlock, and lock anew")
	}
	fmt.Println(lease.Mode(), lease.Token() > token)
	_ = lease.Unlock(ctx)
	// Output: exclusive true
}

// After a write, the writer lets readers in, and goes on reading.
func ExampleLease_Downgrade() {
	ctx, mesh := context.Background(), alone()
	lease, _ := mesh.Lock(ctx, "index")
	_ = lease.Downgrade(ctx)
	other, err := mesh.TryRLock(ctx, "index")
	fmt.Println(lease.Mode(), err)
	_ = other.Unlock(ctx)
	_ = lease.Unlock(ctx)
	// Output: shared <nil>
}
