// Package sqlregister keeps the record of a mesh's births in a row of an SQL table.
//
//	r, err := sqlregister.New(db, sqlfence.PostgreSQL, "lockmesh_register", "locks")
//	if err == nil {
//		err = r.Create(ctx)
//	}
//	cfg.Register = r
//
// db must lead to the primary, not to a replica, and a committed transaction must survive a
// failover: with asynchronous replication a failover takes the record back, and two meshes may act.
package sqlregister

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"github.com/lockmesh/lockmesh/fence/sqlfence"
	"github.com/lockmesh/lockmesh/register"
)

// DefaultTable is the default name of the table.
const DefaultTable = "lockmesh_register"

// maxName is the longest name of a row, in bytes.
const maxName = 255

// Row is a [register.Register] in a row. Any goroutine may use a Row.
type Row struct {
	db   *sql.DB
	name string

	create, load, add, replace string
}

var _ register.Register = (*Row)(nil)

// identifier matches a table's name, with or without its schema, and no other part of a statement.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// New returns the register in the row of the given name. An empty table is [DefaultTable]; a table
// may have rows of many meshes. New doesn't access the database. The row is added when the first
// mesh is founded.
func New(db *sql.DB, dialect sqlfence.Dialect, table, name string) (*Row, error) {
	if table == "" {
		table = DefaultTable
	}
	switch {
	case db == nil:
		return nil, errors.New("sqlregister: no database")
	case !identifier.MatchString(table):
		return nil, fmt.Errorf("sqlregister: %q can't be a table's name: take letters, digits and underscores", table)
	case name == "" || len(name) > maxName:
		return nil, fmt.Errorf("sqlregister: a row's name has 1 to %d bytes, not %d", maxName, len(name))
	}
	r := &Row{db: db, name: name}
	columns := " (name, version, record)"
	switch dialect {
	case sqlfence.SQLite:
		r.create = "CREATE TABLE IF NOT EXISTS " + table + " (name TEXT NOT NULL PRIMARY KEY, version TEXT NOT NULL, record TEXT NOT NULL)"
		r.load = "SELECT version, record FROM " + table + " WHERE name = ?"
		r.add = "INSERT INTO " + table + columns + " VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING"
		r.replace = "UPDATE " + table + " SET version = ?, record = ? WHERE name = ? AND version = ?"
	case sqlfence.PostgreSQL:
		r.create = "CREATE TABLE IF NOT EXISTS " + table + ` (name VARCHAR(255) COLLATE "C" NOT NULL PRIMARY KEY, version VARCHAR(64) NOT NULL, record TEXT NOT NULL)`
		r.load = "SELECT version, record FROM " + table + " WHERE name = $1"
		r.add = "INSERT INTO " + table + columns + " VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING"
		r.replace = "UPDATE " + table + " SET version = $1, record = $2 WHERE name = $3 AND version = $4"
	case sqlfence.MySQL:
		r.create = "CREATE TABLE IF NOT EXISTS " + table + " (name VARBINARY(255) NOT NULL PRIMARY KEY, version VARBINARY(64) NOT NULL, record BLOB NOT NULL)"
		r.load = "SELECT version, record FROM " + table + " WHERE name = ?"
		r.add = "INSERT IGNORE INTO " + table + columns + " VALUES (?, ?, ?)"
		r.replace = "UPDATE " + table + " SET version = ?, record = ? WHERE name = ? AND version = ?"
	default:
		return nil, errors.New("sqlregister: no dialect; take sqlfence.SQLite, PostgreSQL or MySQL")
	}
	return r, nil
}

// Schema returns the statement that creates the table unless the table exists.
func (r *Row) Schema() string { return r.create }

// Create creates the table unless the table exists.
func (r *Row) Create(ctx context.Context) error {
	_, err := r.db.ExecContext(ctx, r.create)
	if err != nil {
		// If several processes create the table at once, PostgreSQL may fail all but the first.
		_, err = r.db.ExecContext(ctx, r.create)
	}
	if err != nil {
		return fmt.Errorf("sqlregister: creating the table: %w", err)
	}
	return nil
}

// Load reads the row.
func (r *Row) Load(ctx context.Context) (record []byte, version string, err error) {
	err = r.db.QueryRowContext(ctx, r.load, r.name).Scan(&version, &record)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("sqlregister: reading the row %q: %w", r.name, err)
	}
	return record, version, nil
}

// Store adds the row, or replaces the row if its version is the given version.
func (r *Row) Store(ctx context.Context, record []byte, version string) error {
	// A random version belongs to a single content only, even if the row is deleted and added
	// again. The record is text.
	next := rand.Text()
	query, args := r.replace, []any{next, string(record), r.name, version}
	if version == "" {
		query, args = r.add, []any{r.name, next, string(record)}
	}
	result, err := r.db.ExecContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("sqlregister: writing the row %q: %w", r.name, err)
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return fmt.Errorf("sqlregister: the driver doesn't tell how many rows have changed: %w", err)
	case n == 0:
		return register.ErrChanged
	}
	return nil
}
