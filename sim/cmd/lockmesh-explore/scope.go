package main

import (
	"fmt"
	"iter"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/explore"
)

// scope is a space to explore.
type scope struct {
	kind
	locks, ticks, breaks, crashes, late int
}

// kind is the part of a scope shared by all scopes that contain it.
type kind struct {
	want         string // the clients' use of their keys: a key of wants
	voters, keys int
	apart, every bool
}

// want is the clients' use of their keys.
type want struct {
	modes              []vote.Mode
	times              []int // how many requests each client makes for one of the limit
	permits            int
	upgrade, downgrade bool
}

// alone is the want of two clients locking their keys exclusively.
const alone = "locks"

// wants are all values of want.
var wants = map[string]want{
	alone:       {modes: []vote.Mode{vote.Exclusive, vote.Exclusive}, times: []int{1, 1}},
	"readers":   {modes: []vote.Mode{vote.Shared, vote.Shared, vote.Exclusive}, times: []int{1, 1, 1}},
	"permits":   {modes: []vote.Mode{vote.Permit, vote.Permit, vote.Permit}, times: []int{1, 1, 1}, permits: 2},
	"permit":    {modes: []vote.Mode{vote.Permit, vote.Permit, vote.Permit}, times: []int{1, 1, 1}, permits: 1},
	"upgrade":   {modes: []vote.Mode{vote.Shared, vote.Shared}, times: []int{2, 1}, upgrade: true},
	"upgrades":  {modes: []vote.Mode{vote.Shared, vote.Shared}, times: []int{2, 2}, upgrade: true},
	"downgrade": {modes: []vote.Mode{vote.Exclusive, vote.Shared}, times: []int{1, 1}, downgrade: true},
}

func (k kind) String() string {
	text := fmt.Sprintf("%d voters, %d keys", k.voters, k.keys)
	if k.want != alone {
		text += ", " + k.want
	}
	if k.apart {
		text += ", apart"
	}
	if k.every {
		text += ", every order"
	}
	return text
}

func (c scope) String() string {
	return fmt.Sprintf("%v: locks %d, ticks %d, breaks %d, crashes %d, late %d", c.kind, c.locks, c.ticks, c.breaks, c.crashes, c.late)
}

func (c scope) options() explore.Options {
	w := wants[c.want]
	locks := make([]int, len(w.times))
	for i, n := range w.times {
		locks[i] = n * c.locks
	}
	return explore.Options{
		Voters: c.voters, Keys: c.keys, SeparateClients: c.apart, Locks: locks, Ticks: c.ticks, Breaks: c.breaks, Crashes: c.crashes, Late: c.late,
		Prompt: !c.every, Modes: w.modes, Permits: w.permits, Upgrade: w.upgrade, Downgrade: w.downgrade, Validity: true, Served: c.want != alone,
	}
}

// possible reports whether flags may set these limits.
func (c scope) possible() bool {
	return max(c.locks, c.ticks, c.breaks, c.crashes, c.late) <= limitMost
}

// contains reports whether all events possible in d are possible in c.
func (c scope) contains(d scope) bool {
	return c.kind == d.kind && c.locks >= d.locks && c.ticks >= d.ticks && c.breaks >= d.breaks && c.crashes >= d.crashes && c.late >= d.late
}

// rows define the growth of the scopes of each kind.
var rows = []struct {
	kind
	begins int // the level of the first scope
	calm   int // ticks in scopes without faults
	ticks  int // ticks in the first scopes with faults
}{
	{kind{alone, 3, 1, false, true}, 0, 0, 0},
	{kind{alone, 3, 1, false, false}, 0, restart, restart},
	{kind{alone, 3, 1, true, false}, 0, restart, restart},
	// Three clients, or two with two requests each, do much in no time.
	{kind{"readers", 3, 1, false, false}, 0, 2, 0},
	{kind{"permits", 3, 1, false, false}, 0, 2, 0},
	{kind{"permit", 3, 1, false, false}, 0, 2, 0},
	{kind{"upgrade", 3, 1, false, false}, 0, restart, 1},
	{kind{"upgrades", 3, 1, false, false}, 0, 1, 0},
	{kind{"downgrade", 3, 1, false, false}, 0, restart, 1},
	{kind{alone, 5, 1, false, false}, 0, restart, restart},
	{kind{alone, 3, 2, false, false}, 0, restart, restart},
	{kind{alone, 5, 2, false, false}, 1, restart, restart},
}

// restart is how many ticks pass until a voter restarted at once counts again.
const restart = 4

// idleMost is the number of levels without a new scope after which there are no more scopes: every
// limit not given grows within three levels.
const idleMost = 4

// scopes yields the spaces left open by the flags, each once, roughly from the smallest on. At
// level n there are n faults, in every combination: breaks of connections, crashes of nodes, and
// late steps.
func (s *settings) scopes() iter.Seq[scope] {
	return func(yield func(scope) bool) {
		seen := make(map[scope]bool)
		for level, idle := 0, 0; idle < idleMost; level, idle = level+1, idle+1 {
			for _, row := range rows {
				n := level - row.begins
				if row.every && n > 0 {
					n-- // exploring all orders alone costs as much as a fault
				}
				for breaks := range n + 1 {
					for crashes := range n + 1 - breaks {
						c := scope{row.kind, 1 + n/3, row.ticks + level/2, breaks, crashes, n - breaks - crashes}
						if n == 0 {
							c.ticks = row.calm + level/2
						}
						if row.every {
							c.ticks = min(level, 1+level/2)
						}
						c = s.given.apply(c, s.scope)
						if seen[c] || !c.possible() {
							continue
						}
						seen[c] = true
						idle = 0
						if !yield(c) {
							return
						}
					}
				}
			}
		}
	}
}

// flags are the names of the flags given.
type flags map[string]bool

// apply returns c with the values given by flags, taken from the scope from.
func (f flags) apply(c, from scope) scope {
	for name, set := range map[string]func(){
		"want":    func() { c.want = from.want },
		"voters":  func() { c.voters = from.voters },
		"keys":    func() { c.keys = from.keys },
		"apart":   func() { c.apart = from.apart },
		"every":   func() { c.every = from.every },
		"locks":   func() { c.locks = from.locks },
		"ticks":   func() { c.ticks = from.ticks },
		"breaks":  func() { c.breaks = from.breaks },
		"crashes": func() { c.crashes = from.crashes },
		"late":    func() { c.late = from.late },
	} {
		if f[name] {
			set()
		}
	}
	return c
}
