package gooselock_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	_ "modernc.org/sqlite"

	"github.com/lockmesh/lockmesh"
	gooselock "github.com/lockmesh/lockmesh/contrib/goose"
	"github.com/lockmesh/lockmesh/internal/adaptertest"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

const key = "orders/migrations"

var migrations = fstest.MapFS{
	"00001_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER PRIMARY KEY);\n-- +goose Down\nDROP TABLE orders;\n")},
	"00002_fill.sql":   {Data: []byte("-- +goose Up\nINSERT INTO orders DEFAULT VALUES;\n-- +goose Down\nDELETE FROM orders;\n")},
	"00003_more.sql":   {Data: []byte("-- +goose Up\nINSERT INTO orders DEFAULT VALUES;\n-- +goose Down\nDELETE FROM orders;\n")},
}

// open opens the database in a file, as another process would.
func open(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func provider(t *testing.T, db *sql.DB, l lock.Locker, opts ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, append(opts, goose.WithLocker(l))...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantOrders(t *testing.T, db *sql.DB, want int) {
	t.Helper()
	var got int
	if err := db.QueryRowContext(testwait.Within(t, testwait.Patience), "SELECT count(*) FROM orders").Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the migrations left %d orders instead of %d: they ran more or less than once", got, want)
	}
}

// goose's own suite: five providers migrate at once, spread over the nodes, and share only a file
// and the mesh.
func TestGoosesSuiteForProviders(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	file := filepath.Join(t.TempDir(), "orders.db")
	n := 0
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		n++
		return provider(t, open(t, file), gooselock.New(nodes[n%len(nodes)], key))
	})
	if n < 2 {
		t.Errorf("the suite made only %d providers", n)
	}
	wantOrders(t, open(t, file), 2)
}

func TestGoosesSuiteForProvidersThatShareALocker(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	file := filepath.Join(t.TempDir(), "orders.db")
	shared := gooselock.New(nodes[0], key)
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider { return provider(t, open(t, file), shared) })
	wantOrders(t, open(t, file), 2)
}

// goose's own suite: five lockers try the lock at once; one locker gets the lock, and the others
// give up in time.
func TestGoosesSuiteForLockers(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	n := 0
	locktesting.TestConcurrentLocking(t, open(t, filepath.Join(t.TempDir(), "orders.db")), func(*testing.T) lock.Locker {
		n++
		return gooselock.New(nodes[n%len(nodes)], key)
	}, 500*time.Millisecond)
}

func TestGoosesSuiteForOneSharedLocker(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	shared := gooselock.New(nodes[0], key)
	locktesting.TestConcurrentLocking(t, open(t, filepath.Join(t.TempDir(), "orders.db")),
		func(*testing.T) lock.Locker { return shared }, 500*time.Millisecond)
}

// stuck is a migration that has written, and goes on only when its context ends.
func stuck(began chan<- struct{}) goose.ProviderOption {
	return goose.WithGoMigrations(goose.NewGoMigration(4, &goose.GoFunc{
		RunTx: func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO orders DEFAULT VALUES"); err != nil {
				return err
			}
			close(began)
			<-ctx.Done()
			return context.Cause(ctx)
		},
	}, nil))
}

// last is the same migration without the wait.
func last() goose.ProviderOption {
	return goose.WithGoMigrations(goose.NewGoMigration(4, &goose.GoFunc{
		RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO orders DEFAULT VALUES")
			return err
		},
	}, nil))
}

// The guard rolls back the migration of a node that dies, and another node finishes the work.
func TestALostLeaseEndsTheMigrationAndAnotherNodeGoesOn(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	file := filepath.Join(t.TempDir(), "orders.db")
	began, ended := make(chan struct{}), make(chan error, 1)
	first := provider(t, open(t, file), gooselock.New(nodes[0], key), stuck(began))
	go func() {
		ctx, done := gooselock.Guard(testwait.Within(t, testwait.Patience))
		defer done()
		_, err := first.Up(ctx)
		ended <- err
	}()
	<-began
	second := provider(t, open(t, file), gooselock.New(nodes[1], key), last())
	took := make(chan []*goose.MigrationResult, 1)
	go func() {
		results, err := second.Up(testwait.Within(t, testwait.Patience))
		if err != nil {
			t.Error(err)
		}
		took <- results
	}()
	if err := nodes[0].Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, lockmesh.ErrLost) {
		t.Errorf("the first ended with %v, which doesn't say that the lease was lost", err)
	}
	if results := <-took; len(results) != 1 || results[0].Source.Version != 4 {
		t.Errorf("the second applied %v instead of what was left", results)
	}
	wantOrders(t, open(t, file), 3)
}

// Without a guard goose can't learn of the loss in time, but Unlock reports the loss.
func TestGooseReportsALeaseThatWasLostMeanwhile(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	db := open(t, filepath.Join(t.TempDir(), "orders.db"))
	p := provider(t, db, gooselock.New(nodes[0], key), goose.WithGoMigrations(goose.NewGoMigration(4, &goose.GoFunc{
		RunTx: func(context.Context, *sql.Tx) error { return nodes[0].Close() },
	}, nil)))
	if _, err := p.Up(testwait.Within(t, testwait.Patience)); !errors.Is(err, lockmesh.ErrLost) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsReachGoose(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b")
	db := open(t, filepath.Join(t.TempDir(), "orders.db"))
	l := gooselock.New(nodes[0], key)
	if err := l.Unlock(t.Context(), db); !errors.Is(err, gooselock.ErrNotLocked) {
		t.Errorf("unlocking what isn't locked: %v", err)
	}
	if _, err := provider(t, db, gooselock.New(nodes[0], "")).Up(t.Context()); !errors.Is(err, lockmesh.ErrKey) {
		t.Errorf("an empty key: %v", err)
	}
	lease, err := nodes[1].Lock(testwait.Within(t, testwait.Patience), key)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := provider(t, db, l).Up(short); !errors.Is(err, lockmesh.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lock that another node has: %v", err)
	}
	if err := lease.Unlock(testwait.Within(t, testwait.Patience)); err != nil {
		t.Error(err)
	}
	if _, err := provider(t, db, l).Up(testwait.Within(t, testwait.Patience)); err != nil {
		t.Errorf("the locker doesn't work after an error: %v", err)
	}
}
