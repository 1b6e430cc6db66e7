package engine

import (
	"cmp"

	"github.com/lockmesh/lockmesh/internal/errs"
)

// EndReason says why a lease has ended at its node.
type EndReason uint8

const (
	// EndUnlocked means that the application has unlocked the lease.
	EndUnlocked EndReason = iota
	// EndExpired means that the lease was to end by itself, and has.
	EndExpired
	// EndLost means that the voters didn't confirm the lease in time.
	EndLost
	// EndEvicted means that another node has ended the lease.
	EndEvicted
	// EndReleased means that Leave or Stop has released the lease.
	EndReleased
	// EndClosed means that Close has ended the node.
	EndClosed
	// EndAbandoned means that the lease was granted as the call ended, so no caller has had the
	// lease.
	EndAbandoned

	// EndReasons is the number of reasons.
	EndReasons
)

// noteEnd counts the end of a lease that was held, and tells the observer. Each held lease has one
// end. The lease's cause is set; where the lease has ended for another reason just before, that
// reason counts. If the lease has left the key to readers, the end of the readers counts.
func (l *loop) noteEnd(lease *Lease, reason EndReason) {
	cause := *lease.endCause.Load()
	if nested := lease.nested.Load(); nested != nil {
		cause = cmp.Or((*nested).ReadersEnd(), cause)
	}
	switch cause {
	case errs.Lost:
		if reason != EndExpired {
			reason = lease.lapsed()
		}
	case errs.Released:
		if reason != EndReleased && reason != EndAbandoned {
			reason = EndUnlocked
		}
	}
	l.ends[reason]++
	if o, observed := lease.values.(*Observation); observed {
		o.ended(lease.Token(), reason, cause)
	}
}

// lapsed returns why a lease has ended that the voters don't uphold any more.
func (l *Lease) lapsed() EndReason {
	if l.isFixed() {
		return EndExpired // a lease of a set length
	}
	return EndLost
}
