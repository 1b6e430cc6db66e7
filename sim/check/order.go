package check

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Order demands that a granted request isn't younger than a waiting request by more than Apart.
// Beyond the assumptions, and while something is wrong, other rules take precedence (for example, a
// request is passed over if only a minority knows of it).
type Order struct {
	// Apart is by how much the voters may misjudge which of two requests is the older one.
	Apart time.Duration
	// Lenient leaves out the demand: overtakings are counted alone.
	Lenient bool
	// Calm reports whether nothing has been wrong since the given time, nor for a while before.
	Calm func(since time.Duration) bool
	// WellSince returns since when nothing is wrong, for the report.
	WellSince func() Moment
	// Soon calls f when a request that may share the key with r must have been granted, too.
	Soon   func(f func())
	Report Report
}

// Overtaken is how an older request was overtaken.
type Overtaken uint8

// The ways.
const (
	OvertakenFairly    Overtaken = iota // within Apart, or it may be granted as well
	OvertakenInTrouble                  // while a fault was active or recent
	OvertakenWrongly                    // reported
)

// Overtakes judges that r is granted while the older request o waits. An upgrade precedes all
// waiting requests, since they wait for the lease that is upgraded; upgrading returns when an
// upgrade of the key was last asked for.
func (c *Order) Overtakes(r, o *Lease, upgrading func() time.Duration) Overtaken {
	if r.Asked-o.Asked <= c.Apart || c.Lenient {
		return OvertakenFairly
	}
	calm := c.Calm(o.Asked)
	switch {
	case !calm:
		return OvertakenInTrouble
	case !r.Bars(o) && o.Mode == r.Mode:
		// Both may be granted, and the younger first only because the older request's votes must
		// be extended or moved before.
		c.Soon(func() {
			// An upgrade precedes all waiting requests, and takes votes from them while they
			// haven't won.
			if o.State == Waiting && c.Calm(o.Asked) && upgrading() < o.Asked {
				c.Report(RuleOrder, "%s was granted %q, asked for at %v, and %s's request of %v waits still", r.Node, r.Key, r.Asked, o.Node, o.Asked)
			}
		})
		return OvertakenFairly
	}
	c.Report(RuleOrder, "%s is granted %q, asked for at %v, while %s's request of %v waits and nothing has been wrong since %v", r.Node, r.Key,
		r.Asked, o.Node, o.Asked, time.Duration(c.WellSince()))
	return OvertakenWrongly
}

// IsPassed reports whether the waiting request o counts as overtaken when the younger request r is
// granted. A request for another number of permits is going to be refused.
func (c *Order) IsPassed(r, o *Lease) bool {
	return o.Asked < r.Asked && !(r.Mode == vote.Permit && o.Mode == vote.Permit && o.Permits != r.Permits)
}
