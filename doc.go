// Package lockmesh provides distributed locks to the processes of an application, without a
// separate service: the processes themselves form the mesh.
//
// A process joins with [Join], which takes a name, the address to listen on, some addresses of
// other nodes, and the names of the voters. A lock is granted once a majority of the voters has
// promised the key to the request. The result is a [Lease]: it renews itself until Unlock, and ends
// at a deadline when renewal fails. Each lease has a fencing token, larger than the token of every
// earlier lease on the key, with which the protected resource can refuse late writers.
//
//	mesh, err := lockmesh.Join(ctx, lockmesh.Config{
//		Name:   "edge-1",
//		Bind:   "0.0.0.0:7950",
//		Peers:  []string{"edge-1:7950", "edge-2:7950"},
//		Voters: []string{"edge-1", "edge-2", "edge-3"},
//		Secret: secret,
//	})
//	lease, err := mesh.Lock(ctx, "billing/nightly")
//	defer lease.Unlock(context.Background())
//	write(lease.Context(), lease.Token())
//
// [Mesh.Do] is the simplest correct way to hold a lock: it unlocks after the function has returned,
// never before.
//
// [Mesh.RLock] shares a key among readers, [Mesh.Semaphore] has as many holders as permits,
// [Mesh.LockAll] takes several keys, [Mesh.Election] elects a leader, and [Mesh.Watch] and
// [Mesh.Inspect] show the state of keys. All of them rest on the same votes, and each acquisition
// is a Lease with a token, a deadline, a Done channel and a context. docs/locks.md lists the whole
// family in a table.
//
// Guarantees: while clock rates stay within half a percent and no holder is paused unseen, at most
// one exclusive lease on a key is held at a time, and no other lease beside it. Tokens rise
// strictly, whatever is paused or delayed, as long as a majority of the voters doesn't lose its
// memory at once, and even then if no clock is behind the last token. No guarantees: while a
// majority of the voters is unreachable, no leases are granted, and the held leases end at their
// deadlines; and a holder that pauses between its last check and its write can write late. The
// token protects against such a write.
//
// Voters keep their promises in memory. So a voter that has started is quiet for the maximum TTL:
// its votes don't count before all leases of its earlier incarnation have ended. A mesh that starts
// for the first time waits as long.
package lockmesh
