package sim

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/internal/broken"
)

// hourAhead sets the clocks of a and x1 an hour ahead of the other clocks.
var hourAhead = Clocks{PPM: []int64{0, 0, 0, 0, 0}, Wall: []time.Duration{time.Hour, 0, 0, time.Hour, 0}}

var moreMutants = []mutant{
	{
		name: "quiet time one tick short", build: hurried(maxLate), scenario: promisesAsQuietEnds, options: Options{Voters: 1},
		unseen: "a tick is less than the margin by which holders are told early",
	},
	{name: "quiet time one refresh short", build: hurried(sceneTTL / vote.RefreshesPerTTL), scenario: votesAgainAtOnce, options: Options{Clients: 2}},
	{name: "the voter's incarnation ignored", build: ignoresLives, scenario: sameSerialInTwoLives, options: Options{Clients: 2}},
	{name: "a lost lease comes back", build: shared(broken.Resurrects), scenario: backAfterALoss, options: Options{Clients: 2}},
	{name: "token hints not cut to the voter's clock", build: cutsNoHint, scenario: hintFromAFarFuture, options: Options{
		Clients: 1, Clocks: Clocks{PPM: []int64{0, 0, 0, 0}, Wall: []time.Duration{0, 0, 0, 75 * 365 * 24 * time.Hour}},
	}},
	{name: "highest token asked for at the start of the quiet time", build: asksEarly, scenario: tokenConfirmedInQuiet, options: Options{
		Clients: 2, Clocks: hourAhead,
	}},
	{name: "an acknowledgement covers votes of another generation", build: shared(broken.HidesQuiet(broken.CoversGenerations)), scenario: voteOfAnEndedSession, options: Options{Clients: 2}},
	{name: "a superseded incarnation's votes dropped at once", build: shared(broken.DropsSuperseded), scenario: supersededHolder, options: Options{Clients: 1}},
	{name: "expiry on wall clocks", build: expiresByWall, scenario: wallsOfVotersStep, options: Options{Clients: 2}},
	{name: "hearsay of a death ends a session", build: shared(broken.FreesUnlinked), scenario: brokenConnections, options: Options{Clients: 2}},
	{name: "yield before uncounting", build: shared(broken.YieldsFirst), scenario: promiseAfterYield, options: Options{
		Clients: 2, Clocks: Clocks{PPM: []int64{0, 0, 0, 0, 0}, Wall: []time.Duration{0, 0, 0, 900 * time.Millisecond, 0}},
	}},
	{name: "release without owner check", build: shared(broken.ReleasesAny), scenario: releaseOfAWaiter, options: Options{Clients: 3}},
	{name: "an answer that only adds", build: shared(broken.HidesQuiet(broken.OnlyAdds)), scenario: voteOfAnEndedSession, options: Options{Clients: 2}},
	{name: "a proposal timeout that revokes without the owner's word", build: shared(broken.Revokes), scenario: wonInItsProposalTimeout, options: Options{Clients: 2}},
	{
		name: "drift allowance forgotten", build: forgetsDrift, scenario: holdsAlone, options: Options{
			Clients: 1, Clocks: Clocks{PPM: []int64{MaxPPM, MaxPPM, MaxPPM, -MaxPPM}},
		},
		unseen: "the margin of TTL/64 is more than the 1 % of TTL that the clocks can differ by",
	},
	{name: "the youngest is served first", build: youngestFirst, scenario: threeWait, options: Options{Clients: 3}},
	{name: "one vote for two keys of one hash", build: mixesKeys, scenario: twoKeysAtOnce, options: Options{Clients: 2}},
}

// TestWrappersThatTamperWithNothingAreFine shows that mutants are found for their broken rules and
// not for their wrappers.
func TestWrappersThatTamperWithNothingAreFine(t *testing.T) {
	for _, row := range []struct {
		name  string
		build Builder
	}{
		{"forger", shared(broken.HidesQuiet(broken.ForgesNothing))},
		{"meddler", shared(broken.MeddlesNothing)},
	} {
		t.Run(row.name, func(t *testing.T) {
			eachSeed(t, 4, func(t *testing.T, seed uint64) {
				if err := (&mutant{}).run(seed, row.build); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// hurried begins the startup quarantine earlier by the given time.
func hurried(by time.Duration) Builder {
	return func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
		now.Slow = now.Slow.Add(-by)
		return node.New(cfg, now)
	}
}

// promisesAsQuietEnds has a caller wait for the end of the quarantine of the only voter.
func promisesAsQuietEnds(w *World) {
	w.Script.Restart("a")
	w.Script.Lock("a", "k")
	w.Run(2 * sceneTTL)
}

// expect demands that a request reaches a state within d, as a user would.
func (w *World) expect(r *Request, want State, d time.Duration) {
	if !w.RunUntil(d, func() bool { return r.State == want }) && w.failed == nil {
		w.judge.violate(checkLiveness, "%s's request of %q is %v after %v, not %v", r.Node, r.Key, r.State, d, want)
	}
}

// lifeless takes every incarnation of a voter for the first incarnation that the node met.
type lifeless struct {
	Machine
	first map[vote.NodeID]vote.Incarnation
}

func ignoresLives(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &lifeless{n, make(map[vote.NodeID]vote.Incarnation)}, err
}

func (l *lifeless) Link(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	if l.first[voter.Node] == 0 {
		l.first[voter.Node] = voter.Incarnation
	}
	voter.Incarnation = l.first[voter.Node]
	l.Machine.Link(now, conn, voter)
}

func (l *lifeless) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if life := l.first[from.Node]; !m.Kind.ToVoter() && life != 0 {
		if m.Incarnation == from.Incarnation {
			m.Incarnation = life
		}
		m.Clock = now.Slow // each incarnation's clock starts anew, without drift
		from.Incarnation = life
	}
	l.Machine.Deliver(now, conn, from, m)
}

// sameSerialInTwoLives has x1 give back a vote of b. The next incarnation of b then gives x1 a vote
// with the same serial.
func sameSerialInTwoLives(w *World) {
	w.Script.Cut("x1", "a", "c")
	w.Run(2 * sceneTTL)
	x1 := w.Script.Lock("x1", "k") // vote of b
	w.Run(50 * time.Millisecond)
	x2 := w.Script.Lock("x2", "k")
	w.expect(x2, Granted, 2*sceneTTL) // x1 yields when its proposal timeout is over
	w.Script.Release(x2)
	w.Run(100 * time.Millisecond)
	w.Script.Restart("b")
	w.Run(2 * sceneTTL)
	w.Script.Mend("x1", "c")
	w.expect(x1, Granted, 2*sceneTTL)
}

// backAfterALoss has x1 lose its lease, and reach the voters again while x2 holds the key.
func backAfterALoss(w *World) {
	w.Script.Lock("x1", "k")
	w.Run(100 * time.Millisecond)
	w.Script.Cut("x1", "a", "b", "c")
	x2 := w.Script.Lock("x2", "k")
	w.expect(x2, Granted, 2*sceneTTL)
	w.Script.Mend("x1", "a", "b", "c")
	w.Run(sceneTTL)
	w.Script.Release(x2)
	w.expect(w.Script.Lock("x2", "k"), Granted, sceneTTL)
}

// credulous is a voter that believes any hint: before a possible promise, its wall clock shows the
// largest hint received.
type credulous struct {
	Machine
	hint vote.Token
}

func cutsNoHint(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &credulous{Machine: n}, err
}

func (c *credulous) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	switch m.Kind {
	case vote.KindRequest:
		c.hint = max(c.hint, m.TokenHint)
		fallthrough
	case vote.KindRelease, vote.KindYield, vote.KindConfirm:
		now.Wall = max(now.Wall, vote.Micros(c.hint))
	}
	c.Machine.Deliver(now, conn, from, m)
}

// hintFromAFarFuture has x1, with a clock in the year 2100, lock a key.
func hintFromAFarFuture(w *World) {
	w.Script.Release(w.Script.Lock("x1", "other")) // a request given up at once does no harm either
	w.expect(w.Script.Lock("x1", "k"), Granted, sceneTTL)
}

// early asks each voter for the highest token on the first contact, and believes the early answers.
type early struct {
	Machine
	now    vote.Now
	nonce  uint64
	told   map[vote.NodeID]heard
	asking bool
	out    []vote.Outbound
}

func asksEarly(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &early{Machine: n, now: now, nonce: uint64(cfg.Incarnation), told: make(map[vote.NodeID]heard)}, err
}

func (e *early) Link(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	if e.Voter() != nil && !e.asking {
		e.out = append(e.out, vote.Outbound{Conn: conn, Message: vote.Message{Kind: vote.KindTokenQuery, Nonce: e.nonce}})
	}
	e.Machine.Link(now, conn, voter)
}

func (e *early) Tick(now vote.Now) { e.now = now; e.Machine.Tick(now) }

func (e *early) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	e.now = now
	if m.Kind == vote.KindTokenAnswer {
		if _, ok := e.told[from.Node]; ok {
			return
		}
		e.told[from.Node] = heard{from.Node, *m}
	}
	e.Machine.Deliver(now, conn, from, m)
}

func (e *early) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out = append(out, e.out...)
	e.out = nil
	first := len(out)
	out, ev = e.Machine.Drain(out, ev)
	if !slices.ContainsFunc(out[first:], func(o vote.Outbound) bool { return o.Message.Kind == vote.KindTokenQuery }) || e.asking {
		return out, ev
	}
	e.asking = true
	for _, from := range slices.Sorted(maps.Keys(e.told)) {
		m := e.told[from].m
		e.Machine.Deliver(e.now, 0, vote.SessionID{Node: from}, &m)
	}
	return e.Machine.Drain(out, ev)
}

// tokenConfirmedInQuiet has x1 take its token from a, a voter with a clock an hour ahead. b
// confirms the token when a is already in its next incarnation.
func tokenConfirmedInQuiet(w *World) {
	w.Script.Cut("x1", "c")
	w.Run(2 * sceneTTL)
	w.Script.CutOneWay("a", "x1")
	w.Script.Lock("x1", "k")
	w.Run(20 * time.Millisecond) // b has voted
	w.Script.CutOneWay("x1", "b")
	w.Script.MendOneWay("a", "x1")
	w.Run(300 * time.Millisecond) // a has voted too, and b is to confirm the token
	w.Script.Cut("x1", "a")
	w.Script.Restart("a")
	w.Run(150 * time.Millisecond)
	w.Script.MendOneWay("x1", "b")
	w.Run(300 * time.Millisecond)
	w.Script.PowerOff("x1")
	w.Run(2 * sceneTTL)
	w.Script.PowerOff("b")
	w.expect(w.Script.Lock("x2", "k"), Granted, 2*sceneTTL)
}

// voteOfAnEndedSession has x1's session end at b, and b vote for x2, before x1 reaches b again.
func voteOfAnEndedSession(w *World) {
	w.Script.Cut("x2", "a", "b")
	w.Script.Cut("x1", "a", "c")
	w.Run(2 * sceneTTL)
	x2 := w.Script.Lock("x2", "k") // vote of c
	w.Run(50 * time.Millisecond)
	w.Script.Lock("x1", "k") // vote of b
	w.Run(50 * time.Millisecond)
	w.Script.Cut("x1", "b")
	w.Script.Mend("x2", "b")
	w.expect(x2, Granted, 3*sceneTTL)
	w.Script.Mend("x1", "b")
	w.Run(sceneTTL)
	w.Script.Mend("x1", "a")
	w.Run(2 * sceneTTL)
}

// supersededHolder has a second process take the name of x1, while x1 is stopped and holds a lease.
func supersededHolder(w *World) {
	w.expect(w.Script.Lock("x1", "k"), Granted, sceneTTL)
	w.Script.Lock("b", "k")
	w.Run(sceneTTL / 5)
	w.Script.Stop("x1")
	duplicate := w.Script.Duplicate("x1")
	w.Run(2 * sceneTTL)
	w.Script.Continue("x1")
	w.Script.Crash(duplicate)
}

// brokenConnections cuts x1 off and breaks its connections.
func brokenConnections(w *World) {
	w.expect(w.Script.Lock("x1", "k"), Granted, sceneTTL)
	w.Script.Lock("x2", "k")
	w.Run(100 * time.Millisecond)
	w.Script.Cut("x1", "a", "b", "c")
	for _, v := range []string{"a", "b", "c"} {
		w.Script.Break("x1", v)
	}
	w.Run(2 * sceneTTL)
}

// releaseOfAWaiter has x3 give up while x1 holds the key and x2 waits.
func releaseOfAWaiter(w *World) {
	w.expect(w.Script.Lock("x1", "k"), Granted, sceneTTL)
	x3 := w.Script.Lock("x3", "k")
	w.Script.Lock("x2", "k")
	w.Run(100 * time.Millisecond)
	w.Script.Release(x3)
	w.Run(sceneTTL)
}

// wonInItsProposalTimeout has x1 win with b's vote. b doesn't learn of the win, and x2 waits for
// the end of the proposal timeout.
func wonInItsProposalTimeout(w *World) {
	w.Script.Cut("x1", "c")
	w.Script.Cut("x2", "a")
	w.Run(2 * sceneTTL)
	w.Script.CutOneWay("b", "x1")
	x1 := w.Script.Lock("x1", "k")
	w.Run(20 * time.Millisecond)
	w.Script.CutOneWay("x1", "b")
	w.Script.MendOneWay("b", "x1")
	w.expect(x1, Granted, sceneTTL)
	w.Script.Lock("x2", "k")
	w.Run(2 * sceneTTL)
}

// walled is a node with a voter that measures time by the wall clock.
type walled struct {
	Machine
	slow vote.Instant
	wall vote.Micros
}

func expiresByWall(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &walled{n, now.Slow, now.Wall}, err
}

func (c *walled) at(now vote.Now) vote.Now {
	now.Slow = c.slow.Add(time.Duration(now.Wall-c.wall) * time.Microsecond)
	return now
}

func (c *walled) Lock(now vote.Now, ask quorum.RequestOptions) (vote.Number, error) {
	return c.Machine.Lock(c.at(now), ask)
}
func (c *walled) Release(now vote.Now, n vote.Number) { c.Machine.Release(c.at(now), n) }
func (c *walled) Link(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	c.Machine.Link(c.at(now), conn, voter)
}
func (c *walled) Unlink(now vote.Now, conn vote.Conn) { c.Machine.Unlink(c.at(now), conn) }
func (c *walled) DialFailed(now vote.Now, voter vote.NodeID, why string) {
	c.Machine.DialFailed(c.at(now), voter, why)
}
func (c *walled) Refused(now vote.Now, voter vote.NodeID, why vote.Reason, text string) {
	c.Machine.Refused(c.at(now), voter, why, text)
}
func (c *walled) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	c.Machine.Deliver(c.at(now), conn, from, m)
}
func (c *walled) Tick(now vote.Now)               { c.Machine.Tick(c.at(now)) }
func (c *walled) Next(now vote.Now) time.Duration { return c.Machine.Next(c.at(now)) }

// wallsOfVotersStep sets the wall clocks of two voters forward by an hour, while x1 receives
// nothing from these voters.
func wallsOfVotersStep(w *World) {
	w.expect(w.Script.Lock("x1", "k"), Granted, sceneTTL)
	w.Script.Lock("x2", "k")
	w.Run(100 * time.Millisecond)
	w.Script.CutOneWay("a", "x1")
	w.Script.CutOneWay("b", "x1")
	w.Script.StepWall("a", time.Hour)
	w.Script.StepWall("b", time.Hour)
	w.Run(2 * sceneTTL)
}

// promiseAfterYield has x1 yield b's vote to x2 just before a's vote for x1 arrives. By its clock
// x1 is the younger requester.
func promiseAfterYield(w *World) {
	w.Script.Cut("x1", "c")
	w.Script.Cut("x2", "a")
	w.Run(2 * sceneTTL)
	let := w.Script.Stall("x1", "a", true)
	w.Script.Lock("x1", "k") // vote of b
	w.Run(20 * time.Millisecond)
	w.Script.Lock("x2", "k") // older
	w.Run(5 * time.Millisecond)
	let()
	w.Run(2 * sceneTTL)
}

// driftless keeps its sessions at voters for a TTL, and believes in them for a TTL by its own
// clock.
type driftless struct {
	Machine
	ttl time.Duration
}

// forgetsDrift lengthens the requester's TTL by the allowance for drift. The TTL that the node
// requests from voters stays the same.
func forgetsDrift(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	if slices.Contains(cfg.Voters, cfg.Name) {
		return node.New(cfg, now)
	}
	ttl := cfg.TTL
	cfg.TTL = ttl * (1000 + vote.RhoPerMille) / (1000 - vote.RhoPerMille)
	cfg.MaxTTL = max(cfg.MaxTTL, cfg.TTL)
	n, err := node.New(cfg, now)
	return &driftless{n, ttl}, err
}

func (d *driftless) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = d.Machine.Drain(out, ev)
	for i := first; i < len(out); i++ {
		if m := &out[i].Message; m.Kind == vote.KindOpen {
			m.TTL = d.ttl
		}
	}
	return out, ev
}

// holdsAlone has x1, with a slow clock, hold a lease of voters with fast clocks.
func holdsAlone(w *World) {
	w.expect(w.Script.Lock("x1", "k"), Granted, sceneTTL)
	w.Run(sceneTTL)
}

// hashing is a voter that keeps votes by a hash of the key, and confuses keys with the same hash.
// Here all keys have the same hash.
type hashing struct{ Machine }

func mixesKeys(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return hashing{n}, err
}

func (h hashing) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	const hash = "#"
	switch m.Kind {
	case vote.KindRequest:
		m.Key = hash
	case vote.KindSync:
		for i := range m.Entries {
			m.Entries[i].Key = hash
		}
	}
	h.Machine.Deliver(now, conn, from, m)
}

// twoKeysAtOnce has two nodes lock two keys.
func twoKeysAtOnce(w *World) {
	w.expect(w.Script.Lock("x1", "one"), Granted, sceneTTL)
	w.expect(w.Script.Lock("x2", "two"), Granted, sceneTTL)
}
