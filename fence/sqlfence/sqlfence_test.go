package sqlfence_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/fence"
	"github.com/lockmesh/lockmesh/fence/sqlfence"
)

// texts are the statements of a dialect, to the letter: the migrations and permissions of a user
// may depend on the statements.
type texts struct{ create, advance, add, newest, locked string }

var dialects = map[sqlfence.Dialect]texts{
	sqlfence.SQLite: {
		create:  "CREATE TABLE IF NOT EXISTS f (resource TEXT NOT NULL PRIMARY KEY, token BIGINT NOT NULL, writes BIGINT NOT NULL)",
		advance: "UPDATE f SET token = ?, writes = writes + 1 WHERE resource = ? AND token <= ?",
		add:     "INSERT INTO f (resource, token, writes) VALUES (?, ?, 1) ON CONFLICT (resource) DO NOTHING",
		newest:  "SELECT token FROM f WHERE resource = ?",
	},
	sqlfence.PostgreSQL: {
		create:  `CREATE TABLE IF NOT EXISTS f (resource VARCHAR(512) COLLATE "C" NOT NULL PRIMARY KEY, token BIGINT NOT NULL, writes BIGINT NOT NULL)`,
		advance: "UPDATE f SET token = $1, writes = writes + 1 WHERE resource = $2 AND token <= $3",
		add:     "INSERT INTO f (resource, token, writes) VALUES ($1, $2, 1) ON CONFLICT (resource) DO NOTHING",
		newest:  "SELECT token FROM f WHERE resource = $1",
		locked:  " FOR UPDATE",
	},
	sqlfence.MySQL: {
		create:  "CREATE TABLE IF NOT EXISTS f (resource VARBINARY(512) NOT NULL PRIMARY KEY, token BIGINT NOT NULL, writes BIGINT NOT NULL)",
		advance: "UPDATE f SET token = ?, writes = writes + 1 WHERE resource = ? AND token <= ?",
		add:     "INSERT IGNORE INTO f (resource, token, writes) VALUES (?, ?, 1)",
		newest:  "SELECT token FROM f WHERE resource = ?",
		locked:  " FOR UPDATE",
	},
}

var errDown = errors.New("the database is down")

func (q texts) advances(rows int64) step {
	return step{want: q.advance, args: []driver.Value{int64(7), "r", int64(7)}, rows: rows}
}

func (q texts) adds(rows int64) step {
	return step{want: q.add, args: []driver.Value{"r", int64(7)}, rows: rows}
}

func (q texts) finds(tokens ...driver.Value) step {
	return step{want: q.newest + q.locked, args: []driver.Value{"r"}, give: tokens}
}

// verb is a step about the transaction, or a step without arguments.
func verb(what string) step { return step{want: what} }

func failing(s step) step {
	s.err = errDown
	return s
}

func TestWhatIsAskedAndWhatIsMadeOfTheAnswers(t *testing.T) {
	for dialect, q := range dialects {
		for _, c := range []struct {
			name  string
			steps []step // after BEGIN
			write error
			want  string // of the error; empty if there is no error
			is    error
		}{
			{"a known resource takes one statement", []step{q.advances(1), verb("COMMIT")}, nil, "", nil},
			{"an unknown resource is added", []step{q.advances(0), q.adds(1), verb("COMMIT")}, nil, "", nil},
			{"another has added it meanwhile, by an older token", []step{q.advances(0), q.adds(0), q.advances(1), verb("COMMIT")}, nil, "", nil},
			{"a newer token was seen", []step{q.advances(0), q.adds(0), q.advances(0), q.finds(int64(9)), verb("ROLLBACK")}, nil,
				`fence: token 7 is stale: "r" has seen 9`, fence.ErrStale},
			{"the row is gone while it is looked at", []step{q.advances(0), q.adds(0), q.advances(0), q.finds(), verb("ROLLBACK")}, nil,
				"gone or went back to token 0", nil},
			{"somebody has written nonsense", []step{q.advances(0), q.adds(0), q.advances(0), q.finds(int64(-1)), verb("ROLLBACK")}, nil,
				"the table has token -1", nil},
			{"write fails", []step{q.advances(1), verb("ROLLBACK")}, errDown, "the database is down", errDown},
			{"the check fails", []step{failing(q.advances(1)), verb("ROLLBACK")}, nil, "checking the token", errDown},
			{"adding fails", []step{q.advances(0), failing(q.adds(0)), verb("ROLLBACK")}, nil, "checking the token", errDown},
			{"reading fails", []step{q.advances(0), q.adds(0), q.advances(0), failing(q.finds()), verb("ROLLBACK")}, nil,
				"reading the newest token", errDown},
			{"the commit fails", []step{q.advances(1), failing(verb("COMMIT"))}, nil, "committing", errDown},
		} {
			t.Run(dialect.String()+": "+c.name, func(t *testing.T) {
				db := play(t, append([]step{verb("BEGIN")}, c.steps...)...)
				err := table(t, dialect, "f").Resource(db, "r").Do(t.Context(), 7, func(*sql.Tx) error { return c.write })
				switch {
				case c.want == "" && err != nil:
					t.Error(err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%v, not %s", err, c.want)
				case c.is != nil && !errors.Is(err, c.is):
					t.Errorf("%v is not %v", err, c.is)
				}
			})
		}
	}
}

func TestAWriteThatPanicsIsRolledBack(t *testing.T) {
	q := dialects[sqlfence.SQLite]
	db := play(t, verb("BEGIN"), q.advances(1), verb("ROLLBACK"))
	defer func() {
		if recover() != "write" {
			t.Error("the panic was swallowed")
		}
	}()
	_ = table(t, sqlfence.SQLite, "f").Resource(db, "r").Do(t.Context(), 7, func(*sql.Tx) error { panic("write") })
}

func TestWhatIsNoTokenOrNameReachesNoDatabase(t *testing.T) {
	ledger := table(t, sqlfence.SQLite, "").Resource(play(t), "r")
	for _, token := range []uint64{0, 1 << 63} {
		if err := ledger.Do(t.Context(), token, nil); !errors.Is(err, fence.ErrToken) {
			t.Errorf("token %d: %v", token, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 513)} {
		db := play(t, verb("BEGIN"), verb("ROLLBACK"))
		if err := table(t, sqlfence.SQLite, "").Resource(db, name).Do(t.Context(), 7, nil); !errors.Is(err, fence.ErrResource) {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
}

func TestCreateAndNewest(t *testing.T) {
	for dialect, q := range dialects {
		f := table(t, dialect, "f")
		if f.Schema() != q.create {
			t.Errorf("%s: %s", dialect, f.Schema())
		}
		unlocked := q
		unlocked.locked = ""
		db := play(t, verb(q.create), unlocked.finds(int64(9)), unlocked.finds())
		if err := f.Create(t.Context(), db); err != nil {
			t.Error(err)
		}
		for _, want := range []uint64{9, 0} {
			if n, err := f.Newest(t.Context(), db, "r"); n != want || err != nil {
				t.Errorf("%s: %d, %v, not %d", dialect, n, err, want)
			}
		}
	}
}

func TestATablesNameCantBeAnythingElse(t *testing.T) {
	for _, name := range []string{"fences; DROP TABLE x", "a.b.c", "1st", "näme", `"f"`, "f ", "."} {
		if _, err := sqlfence.New(sqlfence.SQLite, name); err == nil {
			t.Errorf("%q is taken for a table's name", name)
		}
	}
	for _, name := range []string{"fences", "app.fences", "_f1"} {
		if _, err := sqlfence.New(sqlfence.MySQL, name); err != nil {
			t.Error(err)
		}
	}
	if _, err := sqlfence.New(sqlfence.Dialect{}, ""); err == nil {
		t.Error("no dialect, and no complaint")
	}
	if s := table(t, sqlfence.SQLite, "").Schema(); !strings.Contains(s, " lockmesh_fence ") {
		t.Errorf("the default table: %s", s)
	}
}

func table(t *testing.T, dialect sqlfence.Dialect, name string) *sqlfence.Table {
	t.Helper()
	table, err := sqlfence.New(dialect, name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}
