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
		Reason: "callers at once may get one server each, and then none has a majority",
	}, {
		Promise: "cancel-error", Outcome: locktest.Broken,
		Reason: "LockContext returns ErrFailed when its context ends",
	}, {
		Promise: "empty-key", Outcome: locktest.Broken,
		Reason: "an empty name is a name like any other",
	}, {
		Promise: "outlives-ttl", Outcome: locktest.Broken,
		Reason: "a lock ends at its expiry unless its holder calls Extend in time; nothing does it by itself",
	}, {
		Promise: "fair-share", Outcome: locktest.Broken, Flaky: true,
		Reason: "waiters ask again after a random while, so who has just unlocked is first, and others are passed over",
	},
},
	locktest.Lacking("there is no fencing token", locktest.HasTokens),
	locktest.Lacking("a Mutex tells until when it is good, and not when it is over", locktest.HasDone, locktest.HasErr),
	locktest.Lacking("waiters poll, so there is no queue", locktest.HasQueue),
	locktest.Lacking("there is no session that could end", locktest.HasLeave),
	locktest.Lacking("the adapter doesn't do it: nothing is renewed, so a holder that is cut off is like any other", locktest.HasCut),
	locktest.Lacking("there are none", locktest.HasReaders, locktest.HasSemaphores),
	locktest.Lacking("a Mutex has no context", locktest.HasContext),
	locktest.Lacking("redsync can't look at a lock, and tells of none", locktest.HasInspection, locktest.HasWatches),
	locktest.Lacking("a Mutex has a value, which is its owner's secret", locktest.HasValues),
)
