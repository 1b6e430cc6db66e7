package explore

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

const (
	clients   = 2
	maxVoters = 5
	maxNodes  = maxVoters + clients
	maxKeys   = 2

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
	Apart  bool // the two clients are nodes of their own, x and y; otherwise they are the voters a and b

	Locks   [clients]int // how many requests each client makes, for all keys together
	Ticks   int          // how many ticks pass
	Breaks  int          // how many connections break; they come back whenever it pleases the adversary
	Crashes int          // how many times a node crashes; it starts again whenever it pleases the adversary
	Late    int          // how often a lane of a connection runs late: what is on it waits for as long as it pleases the adversary

	// Prompt has every message arrive at once, those of either client's lanes in a fixed order, unless its lane runs late. Otherwise that
	// holds for the refresh lane alone, and the others are delivered in every order.
	Prompt bool

	Crash []string // which nodes may crash; nil: all
	Break []string // which connections may break, as "x-a"; nil: all

	Keep    bool // leases aren't released
	Abandon bool // requests are given up while they wait
	Try     bool // requests may be TryLocks
	Cold    bool // begin at the first start of all, rather than when all voters count

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

// Machine is what runs on a node: a *node.Node, or one in a wrapper that breaks a rule. It is copied by reflection; see [deepCopy].
type Machine interface {
	Lock(now vote.Now, ask quorum.Ask) (vote.Number, error)
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
	if o.Voters < clients || o.Voters > maxVoters {
		return fmt.Errorf("%d voters: it can be %d to %d", o.Voters, clients, maxVoters)
	}
	if o.Keys == 0 {
		o.Keys = 1
	}
	if o.Keys < 1 || o.Keys > maxKeys {
		return fmt.Errorf("%d keys: it can be 1 to %d", o.Keys, maxKeys)
	}
	for _, n := range []int{o.Locks[0], o.Locks[1], o.Ticks, o.Breaks, o.Crashes, o.Late} {
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
