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

	// Tick is by how much time passes at once. The voters' time to ask for tokens and to forget a key is one tick.
	Tick = vote.AskFor
	// ticksPerTTL makes sessions of three ticks: a stream ends (TTL/2) after two ticks without an answer, and a lease
	// is believed in at two ticks after its refresh and no longer at the third, when the promise has ended.
	ticksPerTTL = 3
	ttl         = ticksPerTTL * Tick
)

var keyNames = [maxKeys]vote.Key{"k", "l"}

const (
	epoch   vote.Instant = 1 << 40               // what the fast and the slow clocks show at first
	wall0   vote.Micros  = 1_700_000_000_000_000 // what a wall clock that is right shows at first
	tickLen vote.Micros  = vote.Micros(Tick / time.Microsecond)
)

// Options say what a run explores. All limits together make the space finite.
type Options struct {
	Voters int  // 3 (the default) or more, named a, b, c...
	Keys   int  // 1 (the default) or 2, named k and l; a client may want both at once
	Apart  bool // the clients are nodes of their own, x, y and z; otherwise they are the voters a, b and c

	Locks   []int // how many requests each client makes, for all keys together; there are two clients, or three if it names three
	Ticks   int   // how many ticks pass
	Breaks  int   // how many connections break; they come back whenever it pleases the adversary
	Crashes int   // how many times a node crashes; it starts again whenever it pleases the adversary
	Late    int   // how often a lane of a connection runs late: what is on it waits for as long as it pleases the adversary

	// Prompt has every message arrive at once, those of either client's lanes in a fixed order, unless its lane runs late. Otherwise that
	// holds for the refresh lane alone, and the others are delivered in every order.
	Prompt bool

	Crash []string // which nodes may crash; nil: all
	Break []string // which connections may break, as "x-a"; nil: all

	Modes     []vote.Mode // of the clients' requests; nil: exclusive
	Permits   int         // how many each key has, 1 or 2, if requests are for permits
	Upgrade   bool        // whoever holds a shared lease may ask for an exclusive one beside it, which takes its place
	Downgrade bool        // exclusive leases may be made shared

	// What all requests have of these; see vote.Wish. Each is at most three ticks.
	Length, Delay, MinHold time.Duration

	Keep    bool // leases aren't released
	Abandon bool // requests are given up while they wait
	Try     bool // requests may be TryLocks
	Cold    bool // begin at the first start of all, rather than when all voters count

	// Cover has the judge look into the voters, too: those behind a lease must stand by it for as long as its holder believes in it. Two
	// readers whose leases nobody covers harm nobody, so users alone wouldn't see that.
	Cover bool
	// Served has whoever waits be served, or turned away, if nothing goes wrong from there on: all that is late arrives, who is down starts, holders
	// give back what they have, and time passes.
	Served bool

	Begin []string // steps that happen first, as [Violation] tells them; they take from the limits above

	Wall map[string]time.Duration // how far the wall clocks of nodes stand from the truth

	Build     Builder             // nil: the node that production runs
	MaxStates int                 // stop after so many; 0: when all have been seen
	Stop      func(Progress) bool // called every now and then; true ends the run

	plain bool // without symmetry
	raw   bool // without symmetry, and with every field of every node written as it stands
}

// Progress tells how far a run is.
type Progress struct {
	States  int // met so far
	Depth   int // of those that are being looked at
	Waiting int // how many have still to be looked at
}

// Machine is what runs on a node: a *node.Node, or one in a wrapper that breaks a rule. It is copied by reflection; see package deep.
type Machine interface {
	Lock(now vote.Now, ask quorum.Ask) (vote.Number, error)
	Share(now vote.Now, num vote.Number) bool
	Release(now vote.Now, num vote.Number)
	Link(now vote.Now, conn vote.Conn, voter vote.SessionID)
	Unlink(now vote.Now, conn vote.Conn)
	Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message)
	Tick(now vote.Now)
	Next(now vote.Now) time.Duration
	Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event)
	Voter() *lease.Voter
}

// Builder makes the machine of a new life of a node.
type Builder func(cfg node.Config, now vote.Now) (Machine, error)

func genuine(cfg node.Config, now vote.Now) (Machine, error) { return node.New(cfg, now) }

// check fills in defaults.
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
	if len(o.Locks) > maxClients || !o.Apart && len(o.Locks) > o.Voters {
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
		o.plain = true // a wrapper may keep names of voters, which the symmetry doesn't know how to exchange
	}
	if o.Keys > 1 || o.raw {
		o.plain = true // a requester ends leases on several keys in an order in which the names of voters play a part
	}
	return nil
}

// checkModes has every client have a mode.
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
		return errors.New("nobody can be served while leases are kept")
	}
	return nil
}

// timed reports whether votes may have a time of their own.
func (o *Options) timed() bool { return o.Length != 0 || o.Delay != 0 || o.MinHold != 0 }

// sharing reports whether two clients may hold a key at once.
func (o *Options) sharing() bool {
	return o.Downgrade || slices.ContainsFunc(o.Modes, func(m vote.Mode) bool { return m != vote.Exclusive })
}
