// Package lockmesh provides distributed locks to the processes of an application, without a
// separate service: the processes themselves form the mesh.
//
// A process joins with [Join], which takes a name, the address to listen on, some addresses of
// other nodes, and the choice of the voters. A lock is granted once a majority of the voters has
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
// [Config] has three ways to choose the voters. Voters is a fixed list of names, as above. With
// StateDir the membership is dynamic: the voters change the set of voters by majority decisions,
// and keep the set on their disks. With Expect fresh processes, with neither fixed names nor disks,
// found the mesh as soon as this number of them reach each other. docs/configuration.md and
// docs/fleets.md compare the three.
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
// one exclusive lease on a key is held at a time, and no other lease beside the exclusive lease.
// Two ways to choose the voters need one assumption more: unique names with Voters, and a bounded
// number of processes with Expect and no Register. Tokens rise strictly, whatever is paused or
// delayed, as long as enough voters remember when a voter restarts (of three voters: both others),
// and otherwise if the restarted voter's clock isn't behind the last token. docs/promises.md has
// the guarantees and their limits in full.
//
// No guarantees: while a majority of the voters is unreachable, no leases are granted, and the held
// leases end at their deadlines; and a holder that pauses between its last check and its write can
// write late. The token protects against such a write.
//
// Voters keep their promises in memory. So a voter that has started is quiet for the maximum TTL:
// its votes don't count before all leases of its earlier incarnation have ended. A mesh that starts
// for the first time waits as long.
package lockmesh
