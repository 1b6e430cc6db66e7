package etcdpeer

import (
	"slices"

	"github.com/lockmesh/lockmesh/locktest"
)

// Expected are the expected outcomes for etcd's locks, with reasons. The test fails if an outcome
// differs.
var Expected = slices.Concat([]locktest.Expected{
	{
		Promise: "exclusion-in-client", Outcome: locktest.Broken,
		Reason: "a session is the owner: a second Mutex of the same session, on the same key, has the lock at once",
	}, {
		Promise: "unlock-retried", Outcome: locktest.Broken,
		Reason: "Unlock deletes the key whoever made it, so a second call deletes the key of the same session's next lock (etcd's issue 22082)",
	}, {
		Promise: "cancel-at-request", Outcome: locktest.Broken,
		Reason: "a Lock or TryLock whose context ends after its transaction has arrived returns without deleting the key that this made; the session goes on holding it",
	}, {
		Promise: "cancel-at-grant", Outcome: locktest.Broken, Flaky: true,
		Reason: "as with cancel-at-request, where the answer to the transaction is late",
	}, {
		Promise: "soak", Outcome: locktest.Broken, Flaky: true,
		Reason: "as with cancel-at-request: its Locks with short contexts leave such keys behind",
	}, {
		Promise: "alike-keys", Outcome: locktest.Broken,
		Reason: "a lock's waiters are keys below its name, so the lock a/b is taken for a waiter of the lock a (issue 710 of etcd's website)",
	}, {
		Promise: "empty-key", Outcome: locktest.Broken,
		Reason: "an empty name is a name like any other",
	}, {
		Promise: "lost-is-told", Outcome: locktest.Broken, Flaky: true,
		Reason: "the client measures its session from when the answer came, and looks once a second whether it is over; by then the server may have given the key away",
	}, {
		Promise: "lost-is-lost", Outcome: locktest.Broken,
		Reason: "Unlock deletes the key without asking whether it was there, so losing the lock goes unnoticed; the other holder is left alone",
	},
},
	locktest.Lacking("a Mutex has no deadline", locktest.HasDeadline),
	locktest.Lacking("a Mutex can't be asked whether it is held; a transaction can, with IsOwner", locktest.HasErr),
	locktest.Lacking("client/v3/concurrency has none; experimental/recipes has an RWMutex, without contexts", locktest.HasReaders),
	locktest.Lacking("there are none", locktest.HasSemaphores),
	locktest.Lacking("a Mutex has no context; Session.Ctx is that of all its locks", locktest.HasContext),
	locktest.Lacking("a Mutex carries none; an Election does", locktest.HasValues),
)
