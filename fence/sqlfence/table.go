package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"github.com/lockmesh/lockmesh/fence"
)

// DefaultTable is the default name of the table.
const DefaultTable = "lockmesh_fence"

// Table is the table of the newest tokens, one row for each resource. A Table holds no connection,
// and may be used from any goroutine.
//
// Rows stay until you delete them. Keep a row for as long as a late writer may come, that is, as
// long as the data: without the row any token is accepted.
type Table struct {
	dialect Dialect
	sql     statements
}

// identifier matches a table's name, with or without its schema, that can't be any other part of a
// statement.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// New returns the table of the given name; "" is [DefaultTable]. New doesn't access a database. The
// name consists of letters, digits and underscores, and may have a schema and a dot in front.
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

// Schema returns the statement that creates the table unless the table exists.
func (t *Table) Schema() string { return t.sql.create }

// Create creates the table unless the table exists.
func (t *Table) Create(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, t.sql.create); err != nil {
		return fmt.Errorf("sqlfence: creating the table: %w", err)
	}
	return nil
}

// Check records the token in the caller's transaction, unless the resource has seen a newer token.
// Call Check before any other statement of the transaction that depends on the lock. From then on
// until the transaction ends, other checks of the resource wait.
//
// A refusal is a [fence.StaleError], [fence.ErrToken] or [fence.ErrResource]; roll back then. Any
// other error comes from the database; retrying the whole transaction may help. The token counts as
// seen only if the transaction commits.
func (t *Table) Check(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := fence.Validate(token); err != nil {
		return err
	}
	if err := fence.ValidateName(resource); err != nil {
		return err
	}
	// Usually the first statement suffices. A missing resource is added, unless another transaction
	// adds the resource at the same time; once the other transaction has committed, its row exists
	// and can be compared.
	for _, try := range []func() (bool, error){
		func() (bool, error) {
			return t.execChanged(ctx, tx, t.sql.advance, int64(token), resource, int64(token))
		},
		func() (bool, error) { return t.execChanged(ctx, tx, t.sql.add, resource, int64(token)) },
		func() (bool, error) {
			return t.execChanged(ctx, tx, t.sql.advance, int64(token), resource, int64(token))
		},
	} {
		if done, err := try(); done || err != nil {
			return err
		}
	}
	newest, err := scanToken(tx.QueryRowContext(ctx, t.sql.newest+t.dialect.lockClause, resource))
	if err != nil {
		return err
	}
	if newest <= token {
		return fmt.Errorf("sqlfence: the row of %q is gone or went back to token %d during the check; was it changed by hand?", resource, newest)
	}
	return &fence.StaleError{Resource: resource, Token: token, Newest: newest}
}

// execChanged executes a statement that changes at most one row, and reports whether a row changed.
func (t *Table) execChanged(ctx context.Context, tx *sql.Tx, query string, args ...any) (bool, error) {
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

// Newest returns the newest token that the resource has seen; 0 if there is none. Newest is for
// inspection: a newer token may already exist when Newest returns.
func (t *Table) Newest(ctx context.Context, db *sql.DB, resource string) (uint64, error) {
	return scanToken(db.QueryRowContext(ctx, t.sql.newest, resource))
}

func scanToken(row *sql.Row) (uint64, error) {
	var token int64
	err := row.Scan(&token)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("sqlfence: reading the newest token: %w", err)
	}
	if token < 0 {
		return 0, fmt.Errorf("sqlfence: the table has token %d; was it changed by hand?", token)
	}
	return uint64(token), nil
}
