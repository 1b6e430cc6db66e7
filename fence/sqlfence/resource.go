package sqlfence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockmesh/lockmesh/fence"
)

// Resource is one resource in one database. A Resource may be used from any goroutine.
type Resource struct {
	table *Table
	db    *sql.DB
	name  string
}

var _ fence.Resource[func(tx *sql.Tx) error] = (*Resource)(nil)

// Resource returns the resource of the given name, for example the lock's key, with its data in db.
func (t *Table) Resource(db *sql.DB, name string) *Resource { return &Resource{t, db, name} }

// Do begins a transaction, checks the token as [Table.Check] does, calls write with the
// transaction, and commits. If any step fails, or write panics, Do rolls back, and neither the data
// written nor the token remains. An error of write is returned unchanged.
//
// When ctx ends before the commit the transaction is rolled back. After an error of the commit
// itself, the transaction may or may not have been committed. A retry with the same token is
// allowed then, so write should recognize its own earlier effect.
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
