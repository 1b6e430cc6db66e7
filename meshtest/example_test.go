package meshtest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/fence"
	"github.com/lockmesh/lockmesh/meshtest"
)

// database is the resource that the lock protects. It refuses writes with old tokens.
type database struct {
	guard  fence.Guard
	writer atomic.Value
}

func (db *database) write(token uint64, who string) error {
	return db.guard.Do(token, func() error { db.writer.Store(who); return nil })
}

func (db *database) lastWriter() string { return db.writer.Load().(string) }

// report is the application, which runs on each node: the holder of the lock writes every second.
func report(ctx context.Context, mesh *lockmesh.Mesh, db *database) error {
	return mesh.Do(ctx, "report", func(ctx context.Context, lease *lockmesh.Lease) error {
		for ctx.Err() == nil {
			if err := db.write(lease.Token(), mesh.Name()); err != nil {
				return err
			}
			time.Sleep(time.Second)
		}
		return context.Cause(ctx)
	})
}

// testAStoppedNodeIsReplaced would be called TestAStoppedNodeIsReplaced in the application.
func testAStoppedNodeIsReplaced(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		var db database
		for _, node := range m.Nodes() {
			go func() {
				for t.Context().Err() == nil {
					_ = report(t.Context(), node, &db)
				}
			}()
		}

		time.Sleep(time.Minute) // of simulated time
		first := db.lastWriter()
		m.Pause(first)
		time.Sleep(time.Minute)
		second := db.lastWriter()
		if second == first {
			t.Errorf("%s is stopped, and no other node took over", first)
		}
		m.Resume(first)
		time.Sleep(time.Minute)
		if now := db.lastWriter(); now != second {
			t.Errorf("%s writes again, though %s has the lock", now, second)
		}
	})
}

func Example() {
	var t *testing.T // as go test hands it to the test
	testAStoppedNodeIsReplaced(t)
}
