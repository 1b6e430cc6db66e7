package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/fence"
	"github.com/lockmesh/lockmesh/meshtest"
)

// TestAWriterRefusedWhileItsLeaseIsHeldEnds: the database has seen a token ahead of the mesh, as
// after a start of all voters with clocks set back. The writer reports an error, and keeps no other
// node from the lock.
func TestAWriterRefusedWhileItsLeaseIsHeldEnds(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		db, table := database(t, filepath.Join(t.TempDir(), "ledger.db"))
		ledger := table.Resource(db, key)
		ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
		must(t, ledger.Do(t.Context(), ahead, func(*sql.Tx) error { return nil }))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := &writer{name: "first", mesh: m.Node("a"), ledger: ledger, orders: bufio.NewReader(strings.NewReader(strings.Repeat("go\n", 9)))}
		if err := w.work(ctx); !errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "After a wrong token") {
			t.Errorf("the writer ends with %v", err)
		}
		lease, err := m.Node("b").TryLock(t.Context(), key)
		must(t, err)
		must(t, lease.Unlock(t.Context()))
	})
}
