package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"github.com/lockmesh/lockmesh/fence"
)

// DefaultTable is the name of the table unless told otherwise.
const DefaultTable = "lockmesh_fence"

// Table is where the newest tokens are kept, one row for each resource. It holds no connection, and may be used from any goroutine.
//
// Rows stay until you delete them. A row is to be kept for as long as a late writer may come, which is for as long as the data: without it
// any token is accepted.
type Table struct {
	dialect Dialect
	text    statements
}

// identifier is what can stand in a statement as the name of a table, with its schema or without, and can't be anything else.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// New returns the table of that name; "" is [DefaultTable]. It doesn't look at a database. The name has letters, digits and underscores,
// and may have a schema and a dot in front.
func New(dialect Dialect, name string) (*Table, error) {
	if name == "" {
		name = DefaultTable
	}
	if dialect == (Dialect{}) {
		return nil, errors.New("sqlfence: no dialect; take SQLite, PostgreSQL or MySQL")
	}
	if !identifier.MatchString(name) {
		return nil, fmt.Errorf("sqlfence: %q can't be a table's name: take letters, digits and underscores", name)
	}
	return &Table{dialect, dialect.statements(name)}, nil
}

// Schema returns the statement that creates the table unless it exists.
func (t *Table) Schema() string { return t.text.create }

// Create creates the table unless it exists.
func (t *Table) Create(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, t.text.create); err != nil {
		return fmt.Errorf("sqlfence: creating the table: %w", err)
	}
	return nil
}

// Check takes note of the token in the caller's transaction, unless the resource has seen a newer one. Call it before anything else
// in the transaction that depends on the lock. From then on until the transaction ends no other token is checked for the
// resource: whoever tries waits.
//
// A refusal is a [fence.StaleError], [fence.ErrToken] or [fence.ErrResource]; roll back then. Any other error is the database's, for
// which retrying the whole transaction may help. Nothing has been seen unless the transaction commits.
func (t *Table) Check(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := fence.Validate(token); err != nil {
		return err
	}
	if err := fence.ValidateName(resource); err != nil {
		return err
	}
	// One statement when all is well. A resource that isn't there is added, unless another does so at the same time; once that one has
	// committed, the row is there to be judged.
	for _, try := range []func() (bool, error){
		func() (bool, error) { return t.one(ctx, tx, t.text.advance, int64(token), resource, int64(token)) },
		func() (bool, error) { return t.one(ctx, tx, t.text.add, resource, int64(token)) },
		func() (bool, error) { return t.one(ctx, tx, t.text.advance, int64(token), resource, int64(token)) },
	} {
		if done, err := try(); done || err != nil {
			return err
		}
	}
	newest, err := newest(tx.QueryRowContext(ctx, t.text.newest+t.dialect.lock, resource))
	if err != nil {
		return err
	}
	if newest <= token {
		return fmt.Errorf("sqlfence: the row of %q is gone or went back to token %d during the check; has somebody changed it by hand?", resource, newest)
	}
	return &fence.StaleError{Resource: resource, Token: token, Newest: newest}
}

// one executes a statement that changes one row or none, and reports which.
func (t *Table) one(ctx context.Context, tx *sql.Tx, query string, args ...any) (bool, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return false, fmt.Errorf("sqlfence: checking the token: %w", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("sqlfence: checking the token: the driver doesn't tell how many rows have changed: %w", err)
	}
	return n > 0, nil
}

// Newest returns the newest token that the resource has seen; 0 if none was. It is for looking: by the time it returns there may be a newer one.
func (t *Table) Newest(ctx context.Context, db *sql.DB, resource string) (uint64, error) {
	return newest(db.QueryRowContext(ctx, t.text.newest, resource))
}

func newest(row *sql.Row) (uint64, error) {
	var token int64
	err := row.Scan(&token)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("sqlfence: reading the newest token: %w", err)
	}
	if token < 0 {
		return 0, fmt.Errorf("sqlfence: the table has token %d; has somebody changed it by hand?", token)
	}
	return uint64(token), nil
}
