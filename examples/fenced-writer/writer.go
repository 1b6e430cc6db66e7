package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/fence"
	"github.com/lockmesh/lockmesh/fence/sqlfence"
)

// writer appends entries, while holding the lock, to a ledger shared by several processes.
type writer struct {
	name   string
	peers  []string
	mesh   *lockmesh.Mesh // nil before Join, and after a cut
	ledger *sqlfence.Resource
	orders *bufio.Reader // the story's orders: stdin
}

// append shows how to write to a protected resource. The check of the lease saves work if the lease
// is lost; but a held lease may be over by the time of the write. The token decides, in the
// transaction of the write.
func (w *writer) append(ctx context.Context, lease *lockmesh.Lease, text string) error {
	if err := lease.Err(); err != nil {
		return err
	}
	printLine("checks", "its lease, which is held; so it goes on to write")
	if err := w.waitForOrder(); err != nil {
		return err
	}
	// A service would take lease.Context() here, and so give up in most cases before the call to
	// the database. This example doesn't, since a lease can end after any check.
	return w.ledger.Do(ctx, lease.Token(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO entries (writer, token, text) VALUES (?, ?, ?)", w.name, int64(lease.Token()), text)
		return err
	})
}

// work writes two entries. A refused writer has lost the lock, and requests a new lease, with a
// larger token. Before the request the writer unlocks the old lease: a lease that is still renewed
// would keep this writer, and all others, waiting without end. If the database refuses the next
// held lease, too, the database has seen a token ahead of the mesh, and an operator has to look.
func (w *writer) work(ctx context.Context) error {
	lease, err := w.lock(ctx)
	if err != nil {
		return err
	}
	refusedHeld := false // the last refusal was of a lease that was held, as far as its node knew
	for i := 1; i <= 2; {
		err := w.append(ctx, lease, fmt.Sprintf("%d of 2", i))
		switch {
		case err == nil:
			printLine("wrote", "%d of 2 by token %d", i, lease.Token())
			i++
			refusedHeld = false
		case errors.Is(err, fence.ErrStale), errors.Is(err, lockmesh.ErrLost):
			printLine("refused", "%v", err)
			lost := lease.Err()
			printLine("notes", "what its lease says by now: %v", lost)
			_ = lease.Unlock(context.WithoutCancel(ctx)) // has no effect on a lost lease
			if lost == nil && refusedHeld {
				return fmt.Errorf("two held leases in a row were refused; see \"After a wrong token\" in docs/fencing.md: %w", err)
			}
			refusedHeld = lost == nil
			if lease, err = w.lock(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return lease.Unlock(ctx)
}

func (w *writer) lock(ctx context.Context) (*lockmesh.Lease, error) {
	if w.mesh == nil {
		mesh, err := lockmesh.Join(ctx, lockmesh.Config{
			Name:   w.name,
			Bind:   "127.0.0.1:0",
			Peers:  w.peers,
			Voters: voters,
			MaxTTL: maxTTL,
		})
		if err != nil {
			return nil, err
		}
		w.mesh = mesh
	}
	lease, err := w.mesh.Lock(ctx, key)
	if err == nil {
		printLine("holds", "the lock by token %d", lease.Token())
	}
	return lease, err
}

// waitForOrder stands for any delay between a check and a write: a garbage collection, a slow disk,
// a sleeping machine. Here the delay lasts until the story says "go".
func (w *writer) waitForOrder() error {
	for {
		order, err := w.orders.ReadString('\n')
		switch {
		case err != nil:
			return fmt.Errorf("the demo is over: %w", err)
		case order == "go\n":
			return nil
		case order == "cut\n": // like a network failure that the writer hasn't noticed
			err := w.mesh.Close()
			w.mesh = nil
			printLine("is cut", "from the mesh, and doesn't look")
			if err != nil {
				return err
			}
		}
	}
}

// runWriter runs a writer's process from start to end.
func runWriter(ctx context.Context, name, database string, peers []string) error {
	db, err := openDatabase(database)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // all entries are committed
	table, err := openTable(ctx, db)
	if err != nil {
		return err
	}
	w := &writer{name: name, peers: peers, ledger: table.Resource(db, key), orders: bufio.NewReader(os.Stdin)}
	err = w.work(ctx)
	if w.mesh != nil {
		err = errors.Join(err, w.mesh.Leave(context.WithoutCancel(ctx)))
	}
	return err
}

// openDatabase opens the database such that concurrent writers wait for each other instead of
// failing.
func openDatabase(file string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(5000)&_txlock=immediate")
}

// openTable creates the table of tokens and the ledger itself, unless they exist.
func openTable(ctx context.Context, db *sql.DB) (*sqlfence.Table, error) {
	table, err := sqlfence.New(sqlfence.SQLite, "")
	if err != nil {
		return nil, err
	}
	if err := table.Create(ctx, db); err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS entries
		(id INTEGER PRIMARY KEY AUTOINCREMENT, writer TEXT NOT NULL, token BIGINT NOT NULL, text TEXT NOT NULL)`)
	return table, err
}

// printLine reports the writer's step to the story: a line that begins with a word or two and a
// tab.
func printLine(what, format string, args ...any) {
	_, _ = io.WriteString(os.Stdout, what+"\t"+fmt.Sprintf(format, args...)+"\n")
}
