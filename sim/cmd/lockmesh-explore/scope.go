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

// kind is what two scopes must have in common for one to contain the other.
type kind struct {
	want         string // what clients want of their keys: one of wants
	voters, keys int
	apart, every bool
}

// want is what clients want of their keys.
type want struct {
	modes              []vote.Mode
	times              []int // how many requests each client makes for one of the limit
	permits            int
	upgrade, downgrade bool
}

// alone is the want of two clients that lock their keys for themselves.
const alone = "locks"

// wants are all there are.
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
		Voters: c.voters, Keys: c.keys, Apart: c.apart, Locks: locks, Ticks: c.ticks, Breaks: c.breaks, Crashes: c.crashes, Late: c.late,
		Prompt: !c.every, Modes: w.modes, Permits: w.permits, Upgrade: w.upgrade, Downgrade: w.downgrade, Cover: true, Served: c.want != alone,
	}
}

// possible reports whether the limits are such as flags may set.
func (c scope) possible() bool {
	return max(c.locks, c.ticks, c.breaks, c.crashes, c.late) <= limitMost
}

// contains reports whether all that can happen in d can happen in c.
func (c scope) contains(d scope) bool {
	return c.kind == d.kind && c.locks >= d.locks && c.ticks >= d.ticks && c.breaks >= d.breaks && c.crashes >= d.crashes && c.late >= d.late
}

// rows say how scopes of a kind grow.
var rows = []struct {
	kind
	begins int // at which level it begins
	calm   int // ticks while nothing goes wrong
	ticks  int // in its first scopes in which something does
}{
	{kind{alone, 3, 1, false, true}, 0, 0, 0},
	{kind{alone, 3, 1, false, false}, 0, restart, restart},
	{kind{alone, 3, 1, true, false}, 0, restart, restart},
	{kind{"readers", 3, 1, false, false}, 0, 2, 0}, // three clients, or two with two requests each, do much in no time
	{kind{"permits", 3, 1, false, false}, 0, 2, 0},
	{kind{"permit", 3, 1, false, false}, 0, 2, 0},
	{kind{"upgrade", 3, 1, false, false}, 0, restart, 1},
	{kind{"upgrades", 3, 1, false, false}, 0, 1, 0},
	{kind{"downgrade", 3, 1, false, false}, 0, restart, 1},
	{kind{alone, 5, 1, false, false}, 0, restart, restart},
	{kind{alone, 3, 2, false, false}, 0, restart, restart},
	{kind{alone, 5, 2, false, false}, 1, restart, restart},
}

// restart is how many ticks it takes until a voter that restarts at once counts again.
const restart = 4

// idleMost is after how many levels without a new scope none will come: every limit that isn't given grows within three.
const idleMost = 4

// scopes yields the spaces that the flags leave, each once, about from the smallest on. At level n, n things go wrong: connections break,
// nodes crash, and what should be prompt is late, in every combination.
func (s *settings) scopes() iter.Seq[scope] {
	return func(yield func(scope) bool) {
		seen := make(map[scope]bool)
		for level, idle := 0, 0; idle < idleMost; level, idle = level+1, idle+1 {
			for _, row := range rows {
				n := level - row.begins
				if row.every && n > 0 {
					n-- // all orders alone are as much as one thing that goes wrong
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

// flags are the names of those that are there.
type flags map[string]bool

// apply takes over from a scope what flags have set.
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
