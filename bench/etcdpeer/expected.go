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
		Reason: "Unlock deletes the key without a check of the key's creator, so a second call deletes the key of the same session's next lock (etcd's issue 22082)",
	}, {
		Promise: "cancel-at-request", Outcome: locktest.Broken,
		Reason: "if the context ends after the transaction has reached the server, Lock and TryLock return without deleting the key made by the transaction; the session goes on holding the key",
	}, {
		Promise: "cancel-at-grant", Outcome: locktest.Broken, Flaky: true,
		Reason: "as with cancel-at-request, if the answer to the transaction is late",
	}, {
		Promise: "soak", Outcome: locktest.Broken, Flaky: true,
		Reason: "as with cancel-at-request: Lock calls with short contexts leave keys behind",
	}, {
		Promise: "alike-keys", Outcome: locktest.Broken,
		Reason: "a lock's waiters are keys below its name, so the lock a/b is taken for a waiter of the lock a (issue 710 of etcd's website)",
	}, {
		Promise: "empty-key", Outcome: locktest.Broken,
		Reason: "an empty name is a name like any other",
	}, {
		Promise: "lost-is-told", Outcome: locktest.Broken, Flaky: true,
		Reason: "the client measures its session from the arrival of the server's answer, and checks once a second whether the session is over; by then the server may have granted the key to another client",
	}, {
		Promise: "lost-is-lost", Outcome: locktest.Broken,
		Reason: "Unlock deletes the key without checking whether the key exists, so the loss of the lock goes unnoticed; the new holder isn't affected",
	},
},
	locktest.Lacking("a Mutex has no deadline", locktest.HasDeadline),
	locktest.Lacking("a Mutex has no call that checks whether the lock is held; a transaction can check, with IsOwner", locktest.HasErr),
	locktest.Lacking("client/v3/concurrency has no lock for readers; experimental/recipes has an RWMutex, without contexts", locktest.HasReaders),
	locktest.Lacking("there are none", locktest.HasSemaphores),
	locktest.Lacking("a Mutex has no context; Session.Ctx is the context of all locks of the session", locktest.HasContext),
	locktest.Lacking("a Mutex carries no value; an Election does", locktest.HasValues),
)
