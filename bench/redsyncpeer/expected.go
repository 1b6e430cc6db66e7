package redsyncpeer

import (
	"slices"

	"github.com/lockmesh/lockmesh/locktest"
)

// Expected are the expected outcomes for Redlock, with reasons. The test fails if an outcome
// differs.
var Expected = slices.Concat([]locktest.Expected{
	{
		Promise: "try-one-wins", Outcome: locktest.Broken, Flaky: true,
		Reason: "concurrent callers may get one server each, and then no caller has a majority",
	}, {
		Promise: "cancel-error", Outcome: locktest.Broken,
		Reason: "LockContext returns ErrFailed when its context ends",
	}, {
		Promise: "empty-key", Outcome: locktest.Broken,
		Reason: "an empty name is a name like any other",
	}, {
		Promise: "outlives-ttl", Outcome: locktest.Broken,
		Reason: "a lock ends at its expiry unless its holder calls Extend in time; redsync calls Extend for no holder",
	}, {
		Promise: "fair-share", Outcome: locktest.Broken, Flaky: true,
		Reason: "waiters retry after a random pause, so a client that has just unlocked is first, and other waiters are overtaken",
	},
},
	locktest.Lacking("there is no fencing token", locktest.HasTokens),
	locktest.Lacking("a Mutex reports until when the lock is valid, and doesn't signal the end", locktest.HasDone, locktest.HasErr),
	locktest.Lacking("waiters poll, so there is no queue", locktest.HasQueue),
	locktest.Lacking("there is no session that could end", locktest.HasLeave),
	locktest.Lacking("the adapter cuts no client off: redsync renews no lock, so a disconnected holder is like any other holder", locktest.HasCut),
	locktest.Lacking("there are none", locktest.HasReaders, locktest.HasSemaphores),
	locktest.Lacking("a Mutex has no context", locktest.HasContext),
	locktest.Lacking("redsync can't query a lock, and reports no events", locktest.HasInspection, locktest.HasWatches),
	locktest.Lacking("a Mutex has a value, which is its owner's secret", locktest.HasValues),
)
