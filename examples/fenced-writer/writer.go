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

// writer appends entries to a ledger that several processes share, and does so while it holds the lock.
type writer struct {
	name   string
	peers  []string
	mesh   *lockmesh.Mesh // nil before it has joined, and after it was cut
	ledger *sqlfence.Resource
	orders *bufio.Reader // what the story says to do: stdin
}

// append is how to write to what a lock protects. The lease is looked at, which saves work when it is lost; but whatever it says
// may be over by the time of the write. The token decides, in the transaction that writes.
func (w *writer) append(ctx context.Context, lease *lockmesh.Lease, text string) error {
	if err := lease.Err(); err != nil {
		return err
	}
	say("checks", "its lease, which is held; so it goes on to write")
	if err := w.meanwhile(); err != nil {
		return err
	}
	// A service would take lease.Context() here, and so give up in most cases before it asks the database. This one doesn't, since
	// the same thing can happen after any check.
	return w.ledger.Do(ctx, lease.Token(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO entries (writer, token, text) VALUES (?, ?, ?)", w.name, int64(lease.Token()), text)
		return err
	})
}

// work writes two entries. Who is refused has lost the lock, and asks for it again: the next lease has a larger token.
func (w *writer) work(ctx context.Context) error {
	lease, err := w.lock(ctx)
	if err != nil {
		return err
	}
	for i := 1; i <= 2; {
		err := w.append(ctx, lease, fmt.Sprintf("%d of 2", i))
		switch {
		case err == nil:
			say("wrote", "%d of 2 by token %d", i, lease.Token())
			i++
		case errors.Is(err, fence.ErrStale), errors.Is(err, lockmesh.ErrLost):
			say("refused", "%v", err)
			say("notes", "what its lease says by now: %v", lease.Err())
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
		say("holds", "the lock by token %d", lease.Token())
	}
	return lease, err
}

// meanwhile stands for all that can take time between a check and a write: a collection of garbage, a slow disk, a machine that sleeps. Here
// it lasts until the story says "go".
func (w *writer) meanwhile() error {
	for {
		order, err := w.orders.ReadString('\n')
		switch {
		case err != nil:
			return fmt.Errorf("the story is over: %w", err)
		case order == "go\n":
			return nil
		case order == "cut\n": // as if the network had gone, and nobody looked
			err := w.mesh.Close()
			w.mesh = nil
			say("is cut", "from the mesh, and doesn't look")
			if err != nil {
				return err
			}
		}
	}
}

// runWriter is the whole life of a writer's process.
func runWriter(ctx context.Context, name, database string, peers []string) error {
	db, err := openDatabase(database)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing is left to be written
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

// openDatabase opens the database, in which writers wait for each other rather than fail.
func openDatabase(file string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(5000)&_txlock=immediate")
}

// openTable creates what isn't there yet: the table of tokens, and the ledger itself.
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

// say tells the story what the writer does: a line that begins with a word or two and a tab.
func say(what, format string, args ...any) {
	_, _ = io.WriteString(os.Stdout, what+"\t"+fmt.Sprintf(format, args...)+"\n")
}
