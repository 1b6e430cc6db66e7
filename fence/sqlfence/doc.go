// Package sqlfence refuses stale tokens in a SQL database: the newest token of each resource is a
// row in a table beside the data, and is checked in the transaction that writes the data, so that
// both commit together or not at all.
//
//	table, err := sqlfence.New(sqlfence.PostgreSQL, "")
//	err = table.Create(ctx, db) // or put table.Schema() among your migrations
//	invoices := table.Resource(db, "billing/invoices")
//
//	err = invoices.Do(lease.Context(), lease.Token(), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "INSERT INTO invoices ...")
//		return err
//	})
//	if errors.Is(err, fence.ErrStale) {
//		// another client holds the lock by now; nothing was written
//	}
//
// The check is an UPDATE on the condition that the row's token isn't larger. The UPDATE locks the
// row until the transaction ends. So two holders run one after the other, and the check of the
// second sees the token committed by the first. READ COMMITTED is sufficient. Under a stricter
// isolation level the database may abort one of two conflicting transactions with an error of its
// own; try again then.
//
// Three things are left to you. Only writers that check are fenced, so each writer must check.
// Check before reading data on which the write depends; data read before the check may be older
// than the last holder's write. And bound the duration of transactions: while a stopped holder has
// a transaction open, after its check, the next holder waits for the row. Databases have a limit
// for idle transactions, such as idle_in_transaction_session_timeout in PostgreSQL. The late commit
// of a stopped holder does no harm, since no newer holder has written in between.
package sqlfence
