package sqlregister_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/fence/sqlfence"
	"github.com/lockmesh/lockmesh/register"
	"github.com/lockmesh/lockmesh/register/sqlregister"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// database is a driver without SQL, which records the statements and returns the given answers. A
// test with SQLite, in examples/fenced-writer, shows that a database answers so.
type database struct {
	said []string
	row  []driver.Value // the result of a SELECT; nil: no row
	rows int64          // the number of rows changed by an INSERT or UPDATE
	err  error
	dumb bool // doesn't report the number of changed rows
}

func (d *database) note(query string, args []driver.NamedValue) {
	for _, a := range args {
		if text, ok := a.Value.(string); ok && len(text) == 26 {
			a.Value = "RANDOM"
		}
		query += fmt.Sprintf(" [%v]", a.Value)
	}
	d.said = append(d.said, query)
}

func (d *database) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (d *database) Driver() driver.Driver                        { return nil }
func (d *database) Close() error                                 { return nil }
func (d *database) Begin() (driver.Tx, error)                    { return nil, errors.New("no transaction is needed") }
func (d *database) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("nothing is prepared")
}

func (d *database) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	d.note(query, args)
	if d.dumb {
		return driver.ResultNoRows, d.err
	}
	return driver.RowsAffected(d.rows), d.err
}

func (d *database) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	d.note(query, args)
	return &rows{d.row}, d.err
}

type rows struct{ row []driver.Value }

func (r *rows) Columns() []string { return []string{"version", "record"} }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(dest []driver.Value) error {
	if r.row == nil {
		return io.EOF
	}
	copy(dest, r.row)
	r.row = nil
	return nil
}

// The statements, to the letter: an operator's migrations and permissions may depend on them.
func TestStatements(t *testing.T) {
	for _, test := range []struct {
		dialect sqlfence.Dialect
		want    []string
	}{
		{sqlfence.SQLite, []string{
			"CREATE TABLE IF NOT EXISTS s.t (name TEXT NOT NULL PRIMARY KEY, version TEXT NOT NULL, record TEXT NOT NULL)",
			"SELECT version, record FROM s.t WHERE name = ? [locks]",
			"INSERT INTO s.t (name, version, record) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING [locks] [RANDOM] [r]",
			"UPDATE s.t SET version = ?, record = ? WHERE name = ? AND version = ? [RANDOM] [r] [locks] [v]",
		}},
		{sqlfence.PostgreSQL, []string{
			`CREATE TABLE IF NOT EXISTS s.t (name VARCHAR(255) COLLATE "C" NOT NULL PRIMARY KEY, version VARCHAR(64) NOT NULL, record TEXT NOT NULL)`,
			"SELECT version, record FROM s.t WHERE name = $1 [locks]",
			"INSERT INTO s.t (name, version, record) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING [locks] [RANDOM] [r]",
			"UPDATE s.t SET version = $1, record = $2 WHERE name = $3 AND version = $4 [RANDOM] [r] [locks] [v]",
		}},
		{sqlfence.MySQL, []string{
			"CREATE TABLE IF NOT EXISTS s.t (name VARBINARY(255) NOT NULL PRIMARY KEY, version VARBINARY(64) NOT NULL, record BLOB NOT NULL)",
			"SELECT version, record FROM s.t WHERE name = ? [locks]",
			"INSERT IGNORE INTO s.t (name, version, record) VALUES (?, ?, ?) [locks] [RANDOM] [r]",
			"UPDATE s.t SET version = ?, record = ? WHERE name = ? AND version = ? [RANDOM] [r] [locks] [v]",
		}},
	} {
		d := &database{rows: 1}
		db := sql.OpenDB(d)
		r, err := sqlregister.New(db, test.dialect, "s.t", "locks")
		if err != nil {
			t.Fatal(err)
		}
		_, version, loadErr := r.Load(t.Context())
		d.said = nil
		err = errors.Join(loadErr, r.Create(t.Context()))
		_, _, loadErr = r.Load(t.Context())
		err = errors.Join(err, loadErr, r.Store(t.Context(), []byte("r"), version), r.Store(t.Context(), []byte("r"), "v"))
		if err != nil {
			t.Error(err)
		}
		if got, want := strings.Join(d.said, "\n"), strings.Join(test.want, "\n"); got != want {
			t.Errorf("%v: it says\n%s\nwant\n%s", test.dialect, got, want)
		}
		if r.Schema() != test.want[0] {
			t.Error(r.Schema())
		}
		_ = db.Close()
	}
}

func TestAnswersOfADatabase(t *testing.T) {
	d := &database{row: []driver.Value{"v", []byte("r")}}
	db := sql.OpenDB(d)
	defer db.Close()
	r, err := sqlregister.New(db, sqlfence.SQLite, "", "locks")
	if err != nil {
		t.Fatal(err)
	}
	if record, version, err := r.Load(t.Context()); string(record) != "r" || version != "v" || err != nil || !strings.Contains(d.said[0], " FROM lockmesh_register ") {
		t.Errorf("%q, %q, %v, %v", record, version, err, d.said)
	}
	if err := r.Store(t.Context(), nil, "v"); err != register.ErrChanged {
		t.Error(err)
	}
	if err := r.Store(t.Context(), nil, ""); err != register.ErrChanged {
		t.Error(err)
	}
	d.dumb = true
	if err := r.Store(t.Context(), nil, "v"); err == nil || errors.Is(err, register.ErrChanged) {
		t.Error(err)
	}
	d.err = errors.New("down")
	_, _, err1 := r.Load(t.Context())
	err2 := r.Store(t.Context(), nil, "v")
	err3 := r.Create(t.Context())
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, d.err) || errors.Is(err, register.ErrChanged) {
			t.Error(err)
		}
	}
}

func TestWhatCantBeARow(t *testing.T) {
	db := sql.OpenDB(new(database))
	defer db.Close()
	for _, test := range []struct {
		db          *sql.DB
		dialect     sqlfence.Dialect
		table, name string
		want        string
	}{
		{nil, sqlfence.SQLite, "", "x", "no database"},
		{db, sqlfence.Dialect{}, "", "x", "no dialect"},
		{db, sqlfence.SQLite, "a; DROP", "x", "can't be a table's name"},
		{db, sqlfence.SQLite, "", "", "1 to 255 bytes"},
		{db, sqlfence.SQLite, "", strings.Repeat("x", 256), "1 to 255 bytes"},
	} {
		if _, err := sqlregister.New(test.db, test.dialect, test.table, test.name); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
