package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lockmesh/lockmesh/fence"
	"github.com/lockmesh/lockmesh/fence/fencetest"
	"github.com/lockmesh/lockmesh/fence/sqlfence"
)

// These are sqlfence's tests with a real database, in this module because of the driver.

// journal is a list of lines in a table, each written in the transaction that checks the token.
type journal struct {
	db     *sql.DB
	ledger *sqlfence.Resource
}

func (j journal) Append(ctx context.Context, token uint64, line string) error {
	return j.ledger.Do(ctx, token, insert(ctx, token, line))
}

func (j journal) Lines(ctx context.Context) (lines []string, err error) {
	rows, err := j.db.QueryContext(ctx, "SELECT text FROM entries ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, rows.Err()
}

func insert(ctx context.Context, token uint64, line string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO entries (writer, token, text) VALUES ('test', ?, ?)", int64(token), line)
		return err
	}
}

func TestASQLiteTableIsFenced(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Log {
		db, table := database(t, filepath.Join(t.TempDir(), "ledger.db"))
		return journal{db, table.Resource(db, key)}
	})
}

func TestWhatATableHasSeenOutlivesTheProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	db, table := database(t, file)
	must(t, table.Resource(db, key).Do(t.Context(), 9, insert(t.Context(), 9, "before")))
	must(t, db.Close())
	db, table = database(t, file)
	if err := table.Resource(db, key).Do(t.Context(), 8, insert(t.Context(), 8, "late")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older token after a restart: %v", err)
	}
}

func TestAWriteThatFailsLeavesNoToken(t *testing.T) {
	db, table := database(t, filepath.Join(t.TempDir(), "ledger.db"))
	ledger := table.Resource(db, key)
	must(t, ledger.Do(t.Context(), 5, insert(t.Context(), 5, "by 5")))
	broken := errors.New("no such account")
	if err := ledger.Do(t.Context(), 9, func(tx *sql.Tx) error { return errors.Join(insert(t.Context(), 9, "by 9")(tx), broken) }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	newest, err := table.Newest(t.Context(), db, key)
	must(t, err)
	lines, err := journal{db, ledger}.Lines(t.Context())
	must(t, err)
	if newest != 5 || len(lines) != 1 {
		t.Errorf("after a write by 9 that was rolled back the newest token is %d, and the lines are %q", newest, lines)
	}
}

func TestResourcesAreFencedOneByOne(t *testing.T) {
	db, table := database(t, filepath.Join(t.TempDir(), "ledger.db"))
	nothing := func(*sql.Tx) error { return nil }
	must(t, table.Resource(db, "a").Do(t.Context(), 9, nothing))
	must(t, table.Resource(db, "A").Do(t.Context(), 2, nothing))
	must(t, table.Resource(db, "a ").Do(t.Context(), 3, nothing))
	for name, want := range map[string]uint64{"a": 9, "A": 2, "a ": 3, "unknown": 0} {
		if n, err := table.Newest(t.Context(), db, name); n != want || err != nil {
			t.Errorf("%q has seen %d, %v, not %d", name, n, err, want)
		}
	}
}

func TestCheckWorksInATransactionOfTheCallers(t *testing.T) {
	db, table := database(t, filepath.Join(t.TempDir(), "ledger.db"))
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	must(t, table.Check(t.Context(), tx, "a", 5))
	must(t, table.Check(t.Context(), tx, "b", 7)) // two resources, and one commit
	must(t, insert(t.Context(), 5, "both")(tx))
	must(t, tx.Commit())
	tx, err = db.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback()
	must(t, table.Check(t.Context(), tx, "a", 6))
	if err := table.Check(t.Context(), tx, "b", 6); !errors.Is(err, fence.ErrStale) {
		t.Errorf("%v", err)
	}
}

// A holder is stopped inside its transaction, after the check: the next holder's transaction waits
// for the end of the first, a commit or a rollback, and comes afterwards.
func TestANewerHolderWaitsForATransactionThatHasChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*sql.Tx) error
		want []string
	}{
		{"and commits", (*sql.Tx).Commit, []string{"by 5", "by 6"}},
		{"and is rolled back", (*sql.Tx).Rollback, []string{"by 6"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, table := database(t, filepath.Join(t.TempDir(), "ledger.db"))
			j := journal{db, table.Resource(db, key)}
			tx, err := db.BeginTx(t.Context(), nil)
			must(t, err)
			must(t, table.Check(t.Context(), tx, key, 5))
			must(t, insert(t.Context(), 5, "by 5")(tx))
			var work sync.WaitGroup
			newer := make(chan error, 1)
			work.Go(func() { newer <- j.Append(t.Context(), 6, "by 6") })
			select {
			case err := <-newer:
				t.Errorf("a newer holder was let in beside it: %v", err)
			default:
			}
			must(t, c.end(tx))
			work.Wait()
			must(t, <-newer)
			if err := j.Append(t.Context(), 5, "late"); !errors.Is(err, fence.ErrStale) {
				t.Errorf("%v", err)
			}
			lines, err := j.Lines(t.Context())
			must(t, err)
			if len(lines) != len(c.want) || lines[0] != c.want[0] || lines[len(lines)-1] != "by 6" {
				t.Errorf("%q, not %q", lines, c.want)
			}
		})
	}
}

func database(t *testing.T, file string) (*sql.DB, *sqlfence.Table) {
	t.Helper()
	db, err := openDatabase(file)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	table, err := openTable(t.Context(), db)
	must(t, err)
	return db, table
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
