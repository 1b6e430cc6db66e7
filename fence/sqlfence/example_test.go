package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/fence"
	"github.com/lockmesh/lockmesh/fence/sqlfence"
)

// The check and the write commit together. examples/fenced-writer is a whole program with SQLite.
func ExampleResource_Do() {
	var db *sql.DB            // as sql.Open returned it
	var lease *lockmesh.Lease // as Lock returned it
	ctx := lease.Context()    // when the lease is lost the transaction is rolled back

	table, err := sqlfence.New(sqlfence.PostgreSQL, "")
	if err != nil {
		log.Fatal(err)
	}
	err = table.Resource(db, lease.Key()).Do(ctx, lease.Token(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 7")
		return err
	})
	if errors.Is(err, fence.ErrStale) {
		log.Print("another holds the lock; nothing was written")
	}
}

// Where a transaction is there already, check first, and roll back when refused.
func ExampleTable_Check() {
	var table *sqlfence.Table // as New returned it
	var lease *lockmesh.Lease // as Lock returned it
	var tx *sql.Tx            // as Begin returned it
	if err := table.Check(context.Background(), tx, lease.Key(), lease.Token()); err != nil {
		log.Print(err, tx.Rollback())
		return
	}
	// Whatever the lock protects comes here, and then the commit.
}
