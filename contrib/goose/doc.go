// Package gooselock lets goose take its migration lock from a mesh: of all processes that start
// with the same migrations, one applies the migrations while the others wait. gooselock works with
// every database supported by goose, including databases without locks.
//
//	locker := gooselock.New(mesh, "orders/migrations")
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(locker))
//	ctx, done := gooselock.Guard(ctx)
//	defer done()
//	results, err := provider.Up(ctx)
//
// goose doesn't check whether it still has its lock. [Guard] gives goose a context that ends when
// the lease is lost, and [Locker.Unlock] reports a loss afterwards.
package gooselock
