package meshtest_test

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// docs/from-redsync.md and docs/from-etcd.md show these four functions, program as main;
// TestThePagesOfOtherServicesShowWhatRuns compares.

func program() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mesh, err := lockmesh.Join(ctx, lockmesh.Config{
		Name:   os.Getenv("NODE"),                      // edge-1, edge-2 or edge-3
		Peers:  []string{"edge-1:7950", "edge-2:7950"}, // where to find other nodes
		Voters: []string{"edge-1", "edge-2", "edge-3"}, // the nodes that grant locks
		Secret: []byte(os.Getenv("LOCKMESH_SECRET")),   // 16 random bytes or more
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(ctx, mesh); err != nil {
		log.Fatal(err)
	}
}

// serve bills again and again until SIGTERM. In between the process goes on to vote.
func serve(ctx context.Context, mesh *lockmesh.Mesh) error {
	for ctx.Err() == nil {
		if err := run(ctx, mesh); err != nil {
			log.Print(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	}
	end, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(mesh.Drain(end), mesh.Stop(end)) // keeps the vote for the next start
}

func run(ctx context.Context, mesh *lockmesh.Mesh) error {
	lease, err := mesh.Lock(ctx, "billing/due") // waits in a queue until ctx ends
	if err != nil {
		return err
	}
	defer lease.Unlock(context.Background())
	return bill(lease.Context(), lease.Token()) // the lease renews itself
}

var _ = program // TestThePagesOfOtherServicesShowWhatRuns compiles and compares

// job is the context's key of the test's job, for bill.
type job struct{}

// bill stands for the pages' own bill.
func bill(ctx context.Context, token uint64) error {
	return ctx.Value(job{}).(func(context.Context) error)(ctx)
}

func TestThePagesOfOtherServicesShowWhatRuns(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "from_pages_test.go"), "\nfunc program()")
	functions, _, _ := strings.Cut(rest, "\nvar _ = program")
	functions = "\nfunc main()" + functions
	for _, name := range []string{"../docs/from-redsync.md", "../docs/from-etcd.md"} {
		_, after, _ := strings.Cut(read(t, name), "\n## After: lockmesh\n")
		if !strings.Contains(after, functions) {
			t.Errorf("%s shows another program after the change than the one that runs in this file:\n%s", name, functions)
		}
	}
}

// TestTheProgramOfThePagesGoesOnToVote runs the pages' program in three processes. Two of the
// processes have done a job of half a minute each, and the third still gets the lock and keeps the
// lock for the job; so do the others when one process has ended and is started again.
func TestTheProgramOfThePagesGoesOnToVote(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		var ending atomic.Bool // then two processes are gone, and the third may lose its lease
		done := make(map[string]chan struct{})
		start := func(node *lockmesh.Mesh) (sigterm func()) {
			billed := make(chan struct{}, 100)
			done[node.Name()] = billed
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), job{}, func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					if !ending.Load() {
						t.Errorf("%s: the job is cut short: %v", node.Name(), context.Cause(ctx))
					}
				case <-time.After(30 * time.Second):
					billed <- struct{}{}
				}
				return context.Cause(ctx)
			}))
			var process sync.WaitGroup
			process.Go(func() {
				if err := serve(ctx, node); err != nil && !ending.Load() {
					t.Errorf("%s: %v", node.Name(), err)
				}
			})
			return func() {
				cancel()
				process.Wait()
			}
		}
		jobs := func(names ...string) {
			t.Helper()
			for _, name := range names {
				for range 2 {
					select {
					case <-done[name]:
					case <-time.After(10 * time.Minute):
						t.Fatalf("%s gets no lock", name)
					}
				}
			}
		}
		sigterm := make(map[string]func())
		for _, node := range m.Nodes() {
			sigterm[node.Name()] = start(node)
		}
		jobs("a", "b", "c")
		sigterm["a"]()
		jobs("b", "c")
		sigterm["a"] = start(m.Restart("a"))
		jobs("a", "b", "c")
		ending.Store(true)
		for _, end := range sigterm {
			end()
		}
	})
}
