package sqlfence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockmesh/lockmesh/fence"
)

// Resource is one resource in one database. It may be used from any goroutine.
type Resource struct {
	table *Table
	db    *sql.DB
	name  string
}

var _ fence.Resource[func(tx *sql.Tx) error] = (*Resource)(nil)

// Resource returns the resource of that name, the lock's key for one, whose data is in db.
func (t *Table) Resource(db *sql.DB, name string) *Resource { return &Resource{t, db, name} }

// Do begins a transaction, checks the token as [Table.Check] does, calls write with the transaction, and commits. If anything fails, or
// write panics, it rolls back, and neither what was written nor the token remains. write's own error is returned as it is.
//
// When ctx ends before the commit the transaction is rolled back. An error of the commit itself leaves open whether it
// took place. Trying again by the same token is allowed then, so let write find what it has written before.
func (r *Resource) Do(ctx context.Context, token uint64, write func(tx *sql.Tx) error) error {
	if err := fence.Validate(token); err != nil {
		return err
	}
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sqlfence: beginning a transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := r.table.Check(ctx, tx, r.name, token); err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sqlfence: committing: %w", err)
	}
	return nil
}
