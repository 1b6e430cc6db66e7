package clients

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/contrib/resp"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served serves the locks of a node on a port of loopback until the test ends, and returns the
// port's address.
func served(t *testing.T, m *meshtest.Mesh, node string, opts ...resp.Option) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts = append([]resp.Option{resp.WithoutPassword(), resp.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := resp.New(m.Node(node), opts...).Serve(ctx, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return l.Addr().String()
}

// newMesh starts a mesh in real time, with leases that survive a stop of the machine for seconds.
func newMesh(t *testing.T) *meshtest.Mesh {
	m := meshtest.New(t, 3)
	m.Ready()
	return m
}

// newRedis returns a client of go-redis.
func newRedis(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

const longTime = time.Minute // for the work of milliseconds
