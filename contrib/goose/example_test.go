package gooselock_test

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/lockmesh/lockmesh"
	gooselock "github.com/lockmesh/lockmesh/contrib/goose"
)

func migrate(ctx context.Context, mesh *lockmesh.Mesh, db *sql.DB, migrations fs.FS) error {
	locker := gooselock.New(mesh, "orders/migrations") // the same on all nodes
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(locker))
	if err != nil {
		return err
	}
	ctx, done := gooselock.Guard(ctx) // ends when the lease is lost
	defer done()
	_, err = provider.Up(ctx)
	return err
}

func Example() {
	_ = migrate // each process calls migrate at its start
}
