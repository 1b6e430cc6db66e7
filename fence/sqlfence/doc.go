// Package sqlfence refuses stale tokens in a SQL database: the newest token of each resource is a row in a table beside the data, and
// is checked in the transaction that writes the data, so that both commit together or not at all.
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
//		// another holds the lock by now; nothing was written
//	}
//
// The check is an UPDATE on the condition that the row's token isn't larger. It locks the row until the transaction ends. So of two
// holders one comes after the other, and the second is judged by what the first has committed. That takes no more than READ COMMITTED.
// Under a stricter isolation level the database may end one of two transactions that meet with an error of its own; try again then.
//
// Three things are left to you. Only writers that check are fenced, so each must. Check before you read what the write
// depends on; what was read before may be older than the last holder's write. And see that a transaction doesn't stay open for ever:
// while a stopped holder has one open, after its check, the next holder waits for the row. Databases have a limit for that, such as
// idle_in_transaction_session_timeout in PostgreSQL. The commit of such a holder is no harm, since nobody has passed it.
package sqlfence
