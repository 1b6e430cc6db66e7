package main

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/lockmesh/lockmesh/fence/sqlfence"
	"github.com/lockmesh/lockmesh/register"
	"github.com/lockmesh/lockmesh/register/registertest"
	"github.com/lockmesh/lockmesh/register/sqlregister"
)

// A row of SQLite compares and sets, from several connections to one file.
func TestARegisterInSQLite(t *testing.T) {
	registertest.Run(t, func(t *testing.T) func() register.Register {
		file := filepath.Join(t.TempDir(), "register.db")
		return func() register.Register {
			db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(60000)&_txlock=immediate")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			r, err := sqlregister.New(db, sqlfence.SQLite, "", "locks")
			if err == nil {
				err = r.Create(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	})
}
