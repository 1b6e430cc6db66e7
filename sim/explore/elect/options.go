package elect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	maxNodes     = 5
	maxProposals = 8

	ttl   = 10 * time.Second
	epoch = vote.Instant(1 << 40)
	// idle is how long a node's clock goes on at once: longer than a failed save is waited for and than a report is recent, and as long as a voter of the next
	// rank gives the one before. Two are as long as an attempt may take, and still shorter than a drain, so that the clocks don't belie it.
	idle = ttl / 2
	// maxCrashes bounds how many lives there are of a node; see life.
	maxCrashes = 6
)

// Options say what a run explores. All limits together make the space finite.
type Options struct {
	// Propose are changes that may be proposed, each once and at any time while its node goes by the first electorate, {a, b, c}: "a:abcd" is that a
	// proposes to have a, b, c and d vote. Names are letters from a on.
	Propose []string

	Crashes  int      // how many times a node crashes; it starts again whenever it pleases the adversary, or never
	Failures int      // how many saves fail
	Cuts     int      // how many times a connection breaks, with the loss of all that is under way on it
	Idles    int      // how many times the clock of one node goes on by half a TTL, so that the next voter's turn comes or, after two, an attempt is given up
	Drains   int      // how many times all clocks go on by a drain; 1 by default unless there are waits, and at most 2
	Waits    int      // how many times all clocks go on for so long that the old voters go back if too few of the new ones are there; at most 1
	Attempts uint64   // the largest number of an attempt that is followed; 3 by default
	Crash    []string // which nodes may crash; nil: all
	// Conclude are the nodes that hear how others stand, so that they may end the joint electorate: "a" hears all others, "a:bd" only b and d; nil: all hear all.
	Conclude []string

	Idle []string // whose clocks may go on by themselves; nil: all
	Mute bool     // nobody tells others what was decided, so that elections go on for as long as they can
	// Begun has the joint electorate of the first proposal on all disks already, so that only its end is explored.
	Begun bool
	// Descend has later lives of a node be smaller ones. They are random in production, and decide between attempts of one number.
	Descend bool

	Build     Builder             // nil: the machine that production runs
	MaxStates int                 // stop after so many; 0: when all have been seen
	Stop      func(Progress) bool // called every now and then; true ends the run

	// For mutants.
	lossy bool // a crash may lose the last save although it was reported done
	lax   bool // only two electorates of one version count as a fault, and the drain
}

// Progress tells how far a run is.
type Progress struct {
	States  int // met so far
	Depth   int // of those that are being looked at
	Waiting int // how many have still to be looked at
}

// Machine is what runs on a node: an *electorate.Machine, or one in a wrapper that breaks a rule. It is copied by reflection; see package deep.
type Machine interface {
	Hear(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message)
	Saved(now vote.Now, writes uint64, failed string)
	Tick(now vote.Now)
	Link(now vote.Now, conn vote.Conn, peer vote.SessionID)
	Unlink(now vote.Now, conn vote.Conn)
	Propose(now vote.Now, target []vote.Elector) error
	Drain(out []vote.Outbound) []vote.Outbound
	Saves() []vote.State
	Alarms() []string
	Core() *electorate.Machine
}

// Genuine is the machine of production.
type Genuine struct{ *electorate.Machine }

// Core returns the machine itself.
func (g Genuine) Core() *electorate.Machine { return g.Machine }

// Builder makes the machine of a new life of a node, whose voter counts at once.
type Builder func(cfg electorate.Config, state vote.State, now vote.Now) Machine

func genuine(cfg electorate.Config, state vote.State, now vote.Now) Machine {
	m := electorate.New(cfg, state, now)
	m.Stand(electorate.Standing{Counting: true})
	return Genuine{m}
}

// proposal is one of Options.Propose.
type proposal struct {
	node   int
	target []vote.Elector
	text   string
}

// founders are how many nodes vote in the first electorate.
const founders = 3

func nodeName(i int) vote.NodeID { return vote.NodeID('a' + rune(i)) }

// life returns which life the kth of a node is, from 1 on. All lives of all nodes differ.
func (o *Options) life(i, k int) vote.Life {
	if o.Descend {
		k = lifeStride - k
	}
	return vote.Life(lifeStride*i + k)
}

const lifeStride = 2 * (maxCrashes + 2)

func elector(i int) vote.Elector { return vote.Elector{Name: nodeName(i), Dir: vote.Dir(i + 1)} }

// check fills in defaults, and returns the proposals, and how many nodes there are.
func (o *Options) check() (all []proposal, nodes int, err error) {
	nodes = founders
	if len(o.Propose) == 0 || len(o.Propose) > maxProposals {
		return nil, 0, fmt.Errorf("%d proposals: it can be 1 to %d", len(o.Propose), maxProposals)
	}
	for _, text := range o.Propose {
		p := proposal{text: text}
		if len(text) < 3 || text[1] != ':' || text[0] < 'a' || text[0] >= 'a'+founders {
			return nil, 0, fmt.Errorf("proposal %q: it must be a voter and its target, like a:abcd", text)
		}
		p.node = int(text[0] - 'a')
		for i := 2; i < len(text); i++ {
			n := int(text[i]) - 'a'
			if n < 0 || n >= maxNodes || i > 2 && text[i-1] >= text[i] {
				return nil, 0, fmt.Errorf("proposal %q: its target must be letters from a to %s, in order", text, nodeName(maxNodes-1))
			}
			p.target = append(p.target, elector(n))
			nodes = max(nodes, n+1)
		}
		all = append(all, p)
	}
	for _, n := range []int{o.Crashes, o.Failures, o.Cuts, o.Idles, o.Drains} {
		if n < 0 || n > 50 {
			return nil, 0, errors.New("a limit is negative or above 50")
		}
	}
	if o.Crashes > maxCrashes || o.Waits < 0 || o.Waits > 1 {
		return nil, 0, fmt.Errorf("%d crashes and %d waits: it can be %d and 1 at most", o.Crashes, o.Waits, maxCrashes)
	}
	if o.Failures > 0 && o.Waits > 0 {
		return nil, 0, errors.New("failing saves and waits: whoever can't save for so long is voted out, which isn't followed; drop one of both")
	}
	if o.Drains == 0 && o.Waits == 0 {
		o.Drains = 1
	}
	if o.Attempts == 0 {
		o.Attempts = 3
	}
	if time.Duration(o.Drains)*electorate.Drain(ttl)+time.Duration(o.Idles)*idle >= electorate.FailAfter(ttl) || o.Idles > 2 {
		return nil, 0, fmt.Errorf("%d drains and %d idles: so much time passes that the old voters go back; 1 and 2 are the most, or 2 and 1", o.Drains, o.Idles)
	}
	for _, names := range [][]string{o.Crash, heard(o.Conclude), o.Idle} {
		for _, name := range names {
			if len(name) != 1 || name[0] < 'a' || int(name[0]-'a') >= nodes {
				return nil, 0, fmt.Errorf("no node is called %s", name)
			}
		}
	}
	if o.Build == nil {
		o.Build = genuine
	}
	return all, nodes, nil
}

// heard returns all names in Options.Conclude.
func heard(conclude []string) (names []string) {
	for _, text := range conclude {
		who, whom, _ := strings.Cut(text, ":")
		names = append(append(names, who), strings.Split(whom, "")...)
	}
	return names
}

// hears reports whether one node may hear how another stands.
func (o *Options) hears(j, i int) bool {
	return o.Conclude == nil || slices.ContainsFunc(o.Conclude, func(text string) bool {
		who, whom, some := strings.Cut(text, ":")
		return who == string(nodeName(j)) && (!some || strings.Contains(whom, string(nodeName(i))))
	})
}

func (o *Options) may(list []string, i int) bool {
	return list == nil || slices.Contains(list, string(nodeName(i)))
}
