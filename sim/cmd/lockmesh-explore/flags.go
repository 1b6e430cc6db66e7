package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/sim/explore"
)

// defaultFor keeps a default run, building included, within a minute.
const defaultFor = 50 * time.Second

// defaultStates keeps the memory of a run below 4 GB: ten million states of the widest scope
// measured took 3.1 GB.
const defaultStates = 10_000_000

// limitMost is the largest value of a limit. The space grows by an order of magnitude with every
// increase by 1 or 2, so no run gets so far.
const limitMost = 50

// settings are the values of the flags.
type settings struct {
	scope  scope // as far as it is given
	given  flags // the flags given
	length time.Duration
	states int

	changes changes
	births  bool

	build explore.Builder // for tests: a node with a broken rule
}

const usage = `lockmesh-explore drives lockmesh's nodes, the very code of production, through everything that can happen within small limits:
every order of messages, breaks of connections, crashes and ticks of the clock, for two or three clients that contend. After each step it
checks that no client holds a key beside another that must not, that voters stand by what clients believe they hold, that tokens rise, and that no
node panics or finds an invariant of its own broken; where keys are shared, also that no request waits without end.

The limits together make a scope. Scopes come in kinds. Clients want different things: two lock keys for themselves (locks), two read and one
writes (readers), three want the two permits of a key (permits) or its only one (permit), one of two readers wants to write (upgrade), both do
(upgrades), or one that writes is content with reading from then on (downgrade). Two or three voters are the clients, or nodes apart are; messages
arrive in every order, or at once but for some that run late; three voters or five, one key or two. It explores small scopes of each kind, then
wider ones, until its time is over. What a flag sets stays as it is; the rest grows.

With -electorate it drives what decides about electorates alone (internal/electorate), through one change: three voters become four, or two. Every order
of messages and saves, crashes with what the disk had by then, disks that fail, rivals, old voters that go back. No two electorates of one version may
be decided, and the new voters not alone before majorities of both halves have applied the joint one for the length of the drain.

With -birth it drives what founds a mesh by count (Config.Expect), of four to six processes without disks: they start and end, hear of each other or
never do, pledge, found, undo their pledges, and vote each other in. No two meshes may have a majority at a time.

Examples:
  go run ./sim/cmd/lockmesh-explore                          the default: small scopes, in less than a minute
  go run ./sim/cmd/lockmesh-explore -for 1h                  wider and wider ones
  go run ./sim/cmd/lockmesh-explore -want readers -for 10m   readers and a writer
  go run ./sim/cmd/lockmesh-explore -voters 5 -crashes 2     five voters, of which two may crash; the other limits grow
  go run ./sim/cmd/lockmesh-explore -electorate -for 10m     one change of an electorate
  go run ./sim/cmd/lockmesh-explore -electorate -propose a:abcd -crashes 1
                                                             three voters become four, while any one of them may crash
  go run ./sim/cmd/lockmesh-explore -birth -for 10m          births of meshes by count
  go run ./sim/cmd/lockmesh-explore -want locks -every -voters 3 -keys 1 -locks 1 -ticks 1 -breaks 0 -crashes 0 -late 1 -apart=false
                                                             this one scope

Exit status: 0 if nothing was violated, 1 after a violation, 2 if a flag is wrong. An interrupt ends it with the report.

Flags:
`

// parse reads the flags. It returns flag.ErrHelp after -h.
func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{given: make(flags)}
	f := flag.NewFlagSet("lockmesh-explore", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.scope.want, "want", "", "`what` clients want of their keys: "+wantNames()+"; if not given, each of them")
	f.IntVar(&s.scope.voters, "voters", 0, "how `many` voters, 3 to 5; if not given, 3 and 5")
	f.IntVar(&s.scope.keys, "keys", 0, "how `many` keys, 1 or 2; if not given, both")
	f.IntVar(&s.scope.locks, "locks", 0, "how `many` times each client asks for a key")
	f.IntVar(&s.scope.ticks, "ticks", 0, "how `many` times the clock ticks; a TTL is three ticks, and so is a voter's quiet time")
	f.IntVar(&s.scope.breaks, "breaks", 0, "how `many` connections break")
	f.IntVar(&s.scope.crashes, "crashes", 0, "how `many` nodes crash; they start again at any time, or never")
	f.IntVar(&s.scope.late, "late", 0, "how `many` times what should be prompt is late by any time: messages, news that a connection is gone, new connections")
	f.BoolVar(&s.scope.apart, "apart", false, "the clients are nodes of their own; with =false, two of the voters; if not given, both")
	f.BoolVar(&s.scope.every, "every", false, "messages arrive in every order; with =false, at once unless late; if not given, both. Refreshes and their answers are prompt in either case")
	f.BoolVar(&s.changes.on, "electorate", false, "explore one change of an electorate (dynamic membership), instead of locks: see above")
	f.BoolVar(&s.births, "birth", false, "explore births of meshes by count, instead of locks: see above")
	f.StringVar(&s.changes.propose, "propose", "", "with -electorate, the one scope in which these `changes` may be proposed, as a:ab,b:abcd; -crashes, -breaks and -idles are its limits")
	f.IntVar(&s.changes.idles, "idles", 0, "with -propose, how `many` times a node's clock goes on by half a TTL by itself, at most 2")
	f.DurationVar(&s.length, "for", defaultFor, "how `long` to go on with wider scopes")
	f.IntVar(&s.states, "states", defaultStates, "how `many` states of one scope to keep at most; ten million fit into 4 GB")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(stderr, usage)
		f.SetOutput(stderr)
		f.PrintDefaults()
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w; -h lists the flags", err)
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q isn't a flag; all settings are flags, and -h lists them", strings.Join(f.Args(), " "))
	}
	f.Visit(func(x *flag.Flag) { s.given[x.Name] = true })
	return s, s.check()
}

// check rejects impossible values, and states the possible ones.
func (s *settings) check() error {
	if _, ok := wants[s.scope.want]; s.given["want"] && !ok {
		return fmt.Errorf("-want %s: it must be one of %s", s.scope.want, wantNames())
	}
	for _, l := range []struct {
		name      string
		n, lo, hi int
	}{
		{"voters", s.scope.voters, 3, 5},
		{"keys", s.scope.keys, 1, 2},
		{"locks", s.scope.locks, 1, limitMost},
		{"ticks", s.scope.ticks, 0, limitMost},
		{"breaks", s.scope.breaks, 0, limitMost},
		{"crashes", s.scope.crashes, 0, limitMost},
		{"late", s.scope.late, 0, limitMost},
	} {
		if s.given[l.name] && (l.n < l.lo || l.n > l.hi) {
			return fmt.Errorf("-%s %d: it must be in %d..%d", l.name, l.n, l.lo, l.hi)
		}
	}
	if err := s.checkBirths(); err != nil {
		return err
	}
	if err := s.changes.check(s.given); err != nil {
		return err
	}
	if s.length <= 0 {
		return fmt.Errorf("-for %v: it must be above 0", s.length)
	}
	if s.states < 1 {
		return fmt.Errorf("-states %d: it must be at least 1", s.states)
	}
	return nil
}

func wantNames() string { return strings.Join(slices.Sorted(maps.Keys(wants)), ", ") }
