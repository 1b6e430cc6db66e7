package lockmesh_test

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/lockmesh/lockmesh"
)

// The README shows these functions; TestTheReadmesExampleIsTheOneThatCompiles compares both.

// serve votes until SIGTERM closes jobs.
func serve(ctx context.Context, secret []byte, jobs <-chan string) error {
	mesh, err := lockmesh.Join(ctx, lockmesh.Config{
		Name:   "edge-1",                               // unique in the mesh
		Bind:   "0.0.0.0:7950",                         // TCP and UDP
		Peers:  []string{"edge-1:7950", "edge-2:7950"}, // some others
		Voters: []string{"edge-1", "edge-2", "edge-3"}, // who decides, by name
		Secret: secret,                                 // 16 random bytes or more
	})
	if err != nil {
		return err
	}
	defer mesh.Stop(context.Background()) // Leave is for good
	for key := range jobs {
		err := mesh.Do(ctx, key, func(ctx context.Context, lease *lockmesh.Lease) error { // once held
			return write(ctx, lease.Token()) // ctx ends, with its cause, when the lease is lost
		})
		if err != nil {
			log.Print(err)
		}
	}
	return nil
}

// write stands for a write to the protected resource. The resource should refuse a token smaller
// than the largest token so far.
func write(ctx context.Context, token uint64) error {
	log.Printf("writing by token %d", token)
	return context.Cause(ctx)
}

func Example() {
	jobs := make(chan string) // filled by requests or a clock, and closed upon SIGTERM
	if err := serve(context.Background(), []byte(os.Getenv("LOCKMESH_SECRET")), jobs); err != nil {
		log.Print(err)
	}
}

// Do releases the lock after the function has returned, never before.
func ExampleMesh_Do() {
	var mesh *lockmesh.Mesh // as returned by Join
	err := mesh.Do(context.Background(), "billing/nightly", func(ctx context.Context, lease *lockmesh.Lease) error {
		return write(ctx, lease.Token())
	})
	if errors.Is(err, lockmesh.ErrLost) {
		log.Print("the lease was lost while writing; the next holder has a larger token")
	}
}

// TryLock distinguishes a held lock from a lack of voters.
func ExampleMesh_TryLock() {
	var mesh *lockmesh.Mesh // as returned by Join
	lease, err := mesh.TryLock(context.Background(), "billing/nightly")
	switch {
	case err == nil:
		defer lease.Unlock(context.Background())
		log.Print(write(lease.Context(), lease.Token()))
	case errors.Is(err, lockmesh.ErrHeld):
		log.Print("another node is at it")
	case errors.Is(err, lockmesh.ErrNoQuorum):
		log.Printf("too few voters: %v", err)
	}
}
