package etcdpeer

import (
	"context"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/locktest"
)

func TestEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := Start(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	locktest.Run(t, s, locktest.Options{TTL: TTL, Timeout: 5 * time.Second, Handovers: 80, Keys: 400, Ops: 600, Expect: Expected})
}
