package explore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

const (
	minClients = 2
	maxClients = 3
	maxVoters  = 5
	maxNodes   = maxVoters + maxClients
	maxKeys    = 2
	maxPermits = 2

	// Tick is the unit in which time passes. The voters' timeouts for token queries and for
	// forgetting a key are one tick.
	Tick = vote.TokenQueryTimeout
	// ticksPerTTL makes sessions of three ticks: a stream ends (TTL/2) after two ticks without an
	// answer. A holder still believes in its lease two ticks after a refresh, and no longer at the
	// third, when the promise has ended.
	ticksPerTTL = 3
	ttl         = ticksPerTTL * Tick
)

var keyNames = [maxKeys]vote.Key{"k", "l"}

const (
	// epoch is the first reading of the fast and the slow clocks.
	epoch   vote.Instant = 1 << 40
	wall0   vote.Micros  = 1_700_000_000_000_000 // the first reading of a correct wall clock
	tickLen vote.Micros  = vote.Micros(Tick / time.Microsecond)
)

// Options are the space to explore. All limits together make the space finite.
type Options struct {
	Voters int // 3 (the default) or more, named a, b, c...
	Keys   int // 1 (the default) or 2, named k and l; a client may want both at once
	// SeparateClients makes the clients nodes of their own, x, y and z; otherwise they are the
	// voters a, b and c.
	SeparateClients bool

	// Locks is how many requests each client makes, for all keys together; there are two clients,
	// or three if Locks names three.
	Locks []int
	Ticks int // how many ticks pass
	// Breaks is how many connections break; a broken connection comes back whenever the adversary
	// likes.
	Breaks int
	// Crashes is how many times a node crashes; a crashed node starts again whenever the adversary
	// likes.
	Crashes int
	// Late is how often a lane of a connection runs late: its messages wait for as long as the
	// adversary likes.
	Late int

	// Prompt has every message arrive at once, in a fixed order of the clients' lanes, unless its
	// lane runs late. Without Prompt only messages of the refresh lane arrive at once, and the
	// other messages are delivered in every order.
	Prompt bool

	Crash []string // the nodes that may crash; nil: all
	Break []string // the connections that may break, as "x-a"; nil: all

	Modes     []vote.Mode // of the clients' requests; nil: exclusive
	Permits   int         // how many permits each key has, 1 or 2, if requests are for permits
	Upgrade   bool        // a holder of a shared lease may request an exclusive lease to replace it
	Downgrade bool        // exclusive leases may be made shared

	// These values apply to all requests; see vote.Spec. Each is at most three ticks.
	Length, Delay, MinHold time.Duration

	Keep    bool // leases aren't released
	Abandon bool // requests are given up while they wait
	Try     bool // requests may be TryLocks
	Cold    bool // begin at the first start of all nodes, rather than when all voters count

	// Validity has the judge inspect the voters, too: the voters behind a lease must back the lease
	// for as long as its holder believes in it. Two readers with leases that no majority backs
	// cause no visible harm, so checks of the users alone would miss them.
	Validity bool
	// Served requires that every waiting request is served, or turned away, if there are no faults
	// from then on: all late messages arrive, crashed nodes start, holders release their leases,
	// and time passes.
	Served bool

	// Begin lists steps to take first, in the notation of [Violation]; they count against the
	// limits above.
	Begin []string

	Wall map[string]time.Duration // the offsets of the nodes' wall clocks

	Build     Builder             // nil: the node of production
	MaxStates int                 // stop after so many states; 0: after all
	Stop      func(Progress) bool // called every now and then; true ends the run

	plain bool // without symmetry
	raw   bool // without symmetry, and with every field of every node written as its plain value
}

// Progress reports how far a run has come.
type Progress struct {
	States  int // visited so far
	Depth   int // of the states being expanded
	Waiting int // how many states are still to be expanded
}

// Machine is the program of a node: a *node.Node, or a wrapper that breaks a rule. A Machine is
// copied by reflection; see package deep.
type Machine interface {
	Lock(now vote.Now, ask quorum.RequestOptions) (vote.Number, error)
	Downgrade(now vote.Now, num vote.Number) bool
	Release(now vote.Now, num vote.Number)
	Link(now vote.Now, conn vote.Conn, voter vote.SessionID)
	Unlink(now vote.Now, conn vote.Conn)
	Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message)
	Tick(now vote.Now)
	Next(now vote.Now) time.Duration
	Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event)
	Voter() *lease.Voter
}

// Builder makes the machine of a new incarnation of a node.
type Builder func(cfg node.Config, now vote.Now) (Machine, error)

func genuine(cfg node.Config, now vote.Now) (Machine, error) { return node.New(cfg, now) }

// check validates the options and fills in defaults.
func (o *Options) check() error {
	if o.Voters == 0 {
		o.Voters = 3
	}
	if o.Voters < minClients || o.Voters > maxVoters {
		return fmt.Errorf("%d voters: it can be %d to %d", o.Voters, minClients, maxVoters)
	}
	o.Locks = slices.Clone(o.Locks)
	for len(o.Locks) < minClients {
		o.Locks = append(o.Locks, 0)
	}
	if len(o.Locks) > maxClients || !o.SeparateClients && len(o.Locks) > o.Voters {
		return fmt.Errorf("%d clients: it can be %d to %d, and no more than voters unless they are apart", len(o.Locks), minClients, maxClients)
	}
	if err := o.checkModes(); err != nil {
		return err
	}
	if o.Keys == 0 {
		o.Keys = 1
	}
	if o.Keys < 1 || o.Keys > maxKeys {
		return fmt.Errorf("%d keys: it can be 1 to %d", o.Keys, maxKeys)
	}
	for _, n := range append([]int{o.Ticks, o.Breaks, o.Crashes, o.Late}, o.Locks...) {
		if n < 0 || n > 200 {
			return errors.New("a limit is negative or above 200")
		}
	}
	if o.Build == nil {
		o.Build = genuine
	} else {
		// A wrapper may keep names of voters, which the symmetry doesn't know how to exchange.
		o.plain = true
	}
	if o.Keys > 1 || o.raw {
		// A requester ends leases on several keys in an order that depends on the names of voters.
		o.plain = true
	}
	return nil
}

// checkModes validates the modes and gives every client one.
func (o *Options) checkModes() error {
	if len(o.Modes) > len(o.Locks) {
		return fmt.Errorf("%d modes for %d clients", len(o.Modes), len(o.Locks))
	}
	o.Modes = slices.Clone(o.Modes)
	for len(o.Modes) < len(o.Locks) {
		o.Modes = append(o.Modes, vote.Exclusive)
	}
	permits := slices.Contains(o.Modes, vote.Permit)
	switch {
	case slices.ContainsFunc(o.Modes, func(m vote.Mode) bool { return !m.Valid() }):
		return fmt.Errorf("modes %v: there is an unknown one", o.Modes)
	case o.Permits < 0 || o.Permits > maxPermits || permits != (o.Permits > 0):
		return fmt.Errorf("%d permits: it can be 1 to %d if requests are for permits, and else 0", o.Permits, maxPermits)
	case min(o.Length, o.Delay, o.MinHold) < 0 || max(o.Length, o.Delay, o.MinHold) > ttl:
		return fmt.Errorf("a length, a delay or a least time to hold is negative or above %v", ttl)
	case o.Served && o.Keep:
		return errors.New("no request can be served while leases are kept")
	}
	return nil
}

// timed reports whether votes may have a time of their own.
func (o *Options) timed() bool { return o.Length != 0 || o.Delay != 0 || o.MinHold != 0 }

// sharing reports whether two clients may hold a key at once.
func (o *Options) sharing() bool {
	return o.Downgrade || slices.ContainsFunc(o.Modes, func(m vote.Mode) bool { return m != vote.Exclusive })
}
