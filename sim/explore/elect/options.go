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
	// idle is the step of a single node's clock: longer than the delay after a failed save and the
	// time for which a report is recent, and as long as a voter waits for the voter of the rank
	// before. Two steps are as long as a ballot may take, and still shorter than a drain, so that
	// the clocks remain consistent with drains.
	idle = ttl / 2
	// maxCrashes bounds the number of a node's incarnations; see incarnation.
	maxCrashes = 6
)

// Options are the space to explore. All limits together make the space finite.
type Options struct {
	// Propose lists the possible proposals, each made once and at any time while its node applies
	// the first electorate, {a, b, c}: "a:abcd" means that a proposes a, b, c and d as voters.
	// Names are letters from a on.
	Propose []string

	// Crashes is how many times a node crashes; it starts again whenever the adversary likes, or
	// never.
	Crashes  int
	Failures int // how many saves fail
	Cuts     int // how many times a connection breaks and loses all messages under way
	// Idles is how many times one node's clock goes on by half a TTL, so that the next voter's turn
	// comes or, after two, a ballot is given up.
	Idles int
	// Drains is how many times all clocks go on by a drain; 1 by default unless there are waits,
	// and at most 2.
	Drains int
	// Waits is how many times all clocks go on for long enough to restore the old voters if too few
	// of the new voters are reachable; at most 1.
	Waits    int
	Attempts uint64   // the largest ballot number followed; 3 by default
	Crash    []string // the nodes allowed to crash; nil: all
	// Conclude lists the nodes that receive reports, so that they may end the joint electorate: "a"
	// receives the reports of all others, "a:bd" only those of b and d; nil: all receive all.
	Conclude []string

	Idle []string // the nodes with clocks allowed to go on by themselves; nil: all
	// Mute keeps nodes from sending others the decisions, so elections go on for as long as they
	// can.
	Mute bool
	// Begun stores the joint electorate of the first proposal on all disks at the start, so that
	// only its end is explored.
	Begun bool
	// Descend gives later incarnations of a node smaller numbers. Incarnations are random in
	// production, and decide between ballots of one number.
	Descend bool

	Build     Builder             // nil: the machine of production
	MaxStates int                 // stop after so many states; 0: after all
	Stop      func(Progress) bool // called every now and then; true ends the run

	// For mutants.
	lossy bool // a crash may lose the last save, although reported done
	lax   bool // only two electorates of one version, and a missing drain, count as faults
}

// Progress reports how far a run has come.
type Progress struct {
	States  int // visited so far
	Depth   int // of the states being expanded
	Waiting int // how many states are still to be expanded
}

// Machine is the program of a node: an *electorate.Machine, or a wrapper that breaks a rule. A
// Machine is copied by reflection; see package deep.
type Machine interface {
	Receive(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message)
	Saved(now vote.Now, writes uint64, failed string)
	Tick(now vote.Now)
	Link(now vote.Now, conn vote.Conn, peer vote.SessionID)
	Unlink(now vote.Now, conn vote.Conn)
	Propose(now vote.Now, target []vote.Elector) error
	Drain(out []vote.Outbound) []vote.Outbound
	Saves() []vote.DiskState
	Alarms() []string
	Core() *electorate.Machine
}

// Genuine is the machine of production.
type Genuine struct{ *electorate.Machine }

// Core returns the machine itself.
func (g Genuine) Core() *electorate.Machine { return g.Machine }

// Builder makes the machine of a new incarnation of a node. The node's voter counts at once.
type Builder func(cfg electorate.Config, state vote.DiskState, now vote.Now) Machine

func genuine(cfg electorate.Config, state vote.DiskState, now vote.Now) Machine {
	m := electorate.New(cfg, state, now)
	m.SetOwnVoter(electorate.OwnVoter{Counting: true})
	return Genuine{m}
}

// proposal is an element of Options.Propose.
type proposal struct {
	node   int
	target []vote.Elector
	text   string
}

// founders is the number of voters in the first electorate.
const founders = 3

func nodeName(i int) vote.NodeID { return vote.NodeID('a' + rune(i)) }

// incarnation returns the number of a node's kth incarnation, from 1 on. All incarnations of all
// nodes differ.
func (o *Options) incarnation(i, k int) vote.Incarnation {
	if o.Descend {
		k = incarnationStride - k
	}
	return vote.Incarnation(incarnationStride*i + k)
}

const incarnationStride = 2 * (maxCrashes + 2)

func elector(i int) vote.Elector { return vote.Elector{Name: nodeName(i), Dir: vote.Dir(i + 1)} }

// check validates the options, fills in defaults, and returns the proposals and the number of
// nodes.
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
		return nil, 0, errors.New("failing saves and waits: a voter that can't save for so long is voted out, which isn't followed; drop one of both")
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

// hears reports whether node j may receive reports of node i.
func (o *Options) hears(j, i int) bool {
	return o.Conclude == nil || slices.ContainsFunc(o.Conclude, func(text string) bool {
		who, whom, some := strings.Cut(text, ":")
		return who == string(nodeName(j)) && (!some || strings.Contains(whom, string(nodeName(i))))
	})
}

func (o *Options) may(list []string, i int) bool {
	return list == nil || slices.Contains(list, string(nodeName(i)))
}
