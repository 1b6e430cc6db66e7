// Package lockmesh gives the processes of an application distributed locks, without a service to run beside them: the processes
// themselves are the mesh.
//
// A process joins with [Join], which takes a name, the address to listen on, some addresses of others, and the names of the voters.
// A lock is granted once a majority of the voters has promised its key to one request. What is granted is a [Lease]: it renews
// itself until Unlock, ends at a deadline when it can't be renewed, and has a token, larger than that of every earlier lease on the
// key, with which the thing that the lock protects can refuse those who come late.
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
// [Mesh.Do] is the shortest way to be right: it releases after the function has returned, never before.
//
// [Mesh.RLock] shares a key among readers, [Mesh.Semaphore] has as many holders as permits, [Mesh.LockAll] takes several keys, [Mesh.Election] elects a leader, and
// [Mesh.Watch] and [Mesh.Inspect] show what happens. All of it rests on the same votes, and each acquisition is a Lease with a token, a deadline, a Done channel
// and a context. docs/locks.md has the whole family in one table.
//
// What is promised: at most one exclusive lease on a key is held at a time, and none beside it, while clock rates stay within half a percent and no holder is
// paused unseen; and tokens rise strictly, whatever is paused or delayed, as long as a majority of voters doesn't forget at once,
// and even then if no clock stands behind the last token. What isn't: while a majority of voters is unreachable there are no new
// leases, and those that are held end at their deadlines; and a holder that stops between its last check and its write can write
// late, which is what the token is for.
//
// Voters keep their promises in memory. So a voter that has started is quiet for the maximum TTL: its votes don't count before any
// lease of its earlier life has ended. A mesh that starts for the first time waits as long.
package lockmesh
