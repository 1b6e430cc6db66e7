package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"reflect"
	"testing"
)

// script is a driver without SQL: the driver expects statements to the letter and returns the given
// answers. So these tests show the statements, and the use of the answers. A test with SQLite, in
// examples/fenced-writer, shows that a database answers so.
type script struct {
	t     *testing.T
	steps []step
}

type step struct {
	want string // the statement, or BEGIN, COMMIT, ROLLBACK
	args []driver.Value
	rows int64          // the number of changed rows
	give []driver.Value // the result of a SELECT: each a row of one column
	err  error
}

// play returns a database that follows the script; the script must be over at the end of the test.
func play(t *testing.T, steps ...step) *sql.DB {
	s := &script{t: t, steps: steps}
	db := sql.OpenDB(s)
	t.Cleanup(func() {
		_ = db.Close()
		if len(s.steps) > 0 {
			t.Errorf("not asked for: %+v", s.steps)
		}
	})
	return db
}

func (s *script) next(query string, args []driver.NamedValue) (step, error) {
	s.t.Helper()
	var values []driver.Value
	for _, a := range args {
		values = append(values, a.Value)
	}
	if len(s.steps) == 0 {
		s.t.Errorf("after the end of the script: %s %v", query, values)
		return step{}, io.ErrUnexpectedEOF
	}
	now := s.steps[0]
	s.steps = s.steps[1:]
	if now.want != query || !reflect.DeepEqual(now.args, values) {
		s.t.Errorf("asked for\n%s %v\nnot for\n%s %v", query, values, now.want, now.args)
		return step{}, fmt.Errorf("not in the script: %s", query)
	}
	return now, now.err
}

func (s *script) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *script) Driver() driver.Driver                        { return nil }
func (s *script) Close() error                                 { return nil }

func (s *script) Prepare(query string) (driver.Stmt, error) {
	return nil, fmt.Errorf("prepared, not executed: %s", query)
}

func (s *script) Begin() (driver.Tx, error) {
	_, err := s.next("BEGIN", nil)
	return s, err
}

func (s *script) Commit() error {
	_, err := s.next("COMMIT", nil)
	return err
}

func (s *script) Rollback() error {
	_, err := s.next("ROLLBACK", nil)
	return err
}

func (s *script) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	now, err := s.next(query, args)
	return driver.RowsAffected(now.rows), err
}

func (s *script) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	now, err := s.next(query, args)
	return &rows{now.give}, err
}

type rows struct{ left []driver.Value }

func (r *rows) Columns() []string { return []string{"token"} }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(dest []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	dest[0], r.left = r.left[0], r.left[1:]
	return nil
}
