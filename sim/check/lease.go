package check

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// State is the state of a request.
type State uint8

// A request goes from Waiting to Granted or to an end, and from Granted to Lost, to Crashed or, by
// way of Releasing, to Released.
const (
	Waiting State = iota
	Granted
	Failed    // a TryLock lost, or the voters refused
	Lost      // the lease has expired
	Releasing // given back, and not confirmed yet
	Released
	Crashed // its process has crashed
)

func (s State) String() string {
	return [...]string{"waiting", "granted", "failed", "lost", "releasing", "released", "crashed"}[s]
}

// Lease is a client's request for a key and the lease that came of it, as the client sees it.
type Lease struct {
	Node   string
	Key    string
	Mode   vote.Mode // the present mode: a writer may downgrade to shared
	Slot   vote.Slot // of a permit
	Try    bool
	Number vote.Number
	State  State
	Token  vote.Token
	Asked  time.Duration
	Had    time.Duration // when it was granted
	Ended  time.Duration

	Owner   vote.SessionID // the process that asked
	Host    int            // the number of the machine
	Permits uint16         // of the semaphore
	Delay   time.Duration  // for which the key rests after an end without a release
	MinHold time.Duration  // for which the lease keeps the key in any case
	Length  time.Duration  // of its own; zero for as long as the session
	Base    *Lease         // for an upgrade: the shared lease to replace

	Alias    vote.Number // the number under which voters know the lease
	Last     vote.Token  // the last token of its block
	Era      int         // of tokens; see Tokens.record
	Given    bool        // given back while held
	GaveBack Moment
	EndAt    Moment // its end in the world's time
	Expired  bool   // the lease ended before its release was confirmed
	// Confirmed is set when a majority has confirmed the release in time.
	Confirmed bool
}

// Bars reports whether two leases of a key exclude each other.
func (r *Lease) Bars(o *Lease) bool { return r.BarsIn(r.Slot, o, o.Slot) }

// BarsIn is Bars for the given slots, which the leases need not have been granted yet.
func (r *Lease) BarsIn(slot vote.Slot, o *Lease, other vote.Slot) bool {
	if r.upgrades(o) || o.upgrades(r) {
		return false
	}
	switch {
	case r.Mode != o.Mode || r.Mode == vote.Exclusive:
		return true
	case r.Mode == vote.Permit:
		return slot == other || r.Permits != o.Permits
	}
	return false
}

// upgrades reports whether r is an upgrade of the shared lease o, and so takes o's place when
// granted.
func (r *Lease) upgrades(o *Lease) bool { return r.Base == o && o.Mode == vote.Shared }

// KeptUntil returns the earliest instant, in the world's time, at which others may get the key: the
// end of the lease, unless the lease was given back; after an end without a release, the end of the
// delay; and the end of the minimum hold. Voters' clocks may run fast by the bound, and the
// holder's clock slow, so voters may end a delay or a minimum hold earlier by the drift allowance.
func (r *Lease) KeptUntil() (until Moment) {
	if !r.Given {
		until = r.EndAt.Add(r.Delay - vote.Drift(r.Delay))
		if r.Delay == 0 {
			until = r.EndAt
		}
	}
	if d := r.MinHold; d > 0 {
		until = max(until, Moment(r.Had).Add(d-vote.Drift(d)))
	}
	return until
}

// HandedOff reports whether a lease was handed off from another caller of the same node.
func (r *Lease) HandedOff() bool { return r.Alias != r.Number }

// before reports whether r was granted before o was asked for. If so, r's token must be smaller,
// however late either node learned of its success.
func (r *Lease) before(o *Lease) bool { return r.Had < o.Asked }
