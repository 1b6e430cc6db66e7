package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// nemesis targets faults at changes of the electorate (Jepsen's word for the process that injects
// faults).
type nemesis struct {
	w       *World
	pending []*pendingFault
	// ambushedUntil is when the newest ambush of several steps is over.
	ambushedUntil Moment
}

// step is a step of a change of the electorate. A targeted fault is injected at such a step.
type step uint8

const (
	stepSends    step = iota // a node sends a message of an election
	stepReceives             // a node receives a message of an election, not yet handled
	stepSaves                // a node has handed a state to its disk
	// A node has learned that its state is stored, and has sent the messages depending on the
	// state.
	stepSaved
	stepKnows // a node learns of a decided electorate
)

// Aim is the target of a world's targeted faults. A world concentrating on a single target hits the
// target often.
type Aim uint8

// The aims, each with the question asked by its faults.
const (
	AimAll Aim = iota
	// AimDrain targets holders as the electorate becomes joint: what if the drain is too short?
	AimDrain
	// AimElection targets the voters of elections, as they promise and accept: what if a voter
	// forgets?
	AimElection
	// AimMinToken targets old voters while the key rests: what if new voters don't learn of its
	// tokens?
	AimMinToken
	// AimFound targets founders during the bootstrap: what if two parts of the founders each
	// bootstrap?
	AimFound
	aims
)

// faultSteps are the steps, repeated by their weight.
var faultSteps = [...]step{stepSends, stepReceives, stepSaves, stepSaved, stepKnows, stepKnows, stepKnows, stepKnows}

// pendingFault waits for a step of a change to inject a fault.
type pendingFault struct {
	host   *host // the host taking the step; nil for any
	step   step
	kind   vote.Kind   // the kind of message sent or received
	joint  bool        // whether the learned electorate must be joint
	any    bool        // the learned electorate may be joint or not
	nth    int         // how many times the step is skipped before
	only   func() bool // reports whether the step is the intended one; may be nil
	inject func(h *host)
}

// pendingMost bounds the number of pending faults.
const pendingMost = 8

// addPending adds a pending fault: when any node, or the given node, takes a step of a change, the
// pending fault injects one of several faults to be survived by a change.
func (ne *nemesis) addPending(h *host, down time.Duration, r *rand.Rand, did func(bool)) {
	if ne.w.opt.Dynamic.Aim == AimElection && r.IntN(3) > 0 {
		ne.ambushElection(r, 6*ne.w.opt.MaxTTL, did)
		return
	}
	if ne.w.opt.Dynamic.Aim == AimMinToken && r.IntN(3) > 0 {
		did(ne.ambushMinToken(r))
		return
	}
	if len(ne.pending) >= pendingMost {
		return
	}
	b := &pendingFault{step: faultSteps[r.IntN(len(faultSteps))], kind: electionMessages[r.IntN(len(electionMessages))], joint: r.IntN(3) > 0}
	switch ne.w.opt.Dynamic.Aim {
	case AimDrain:
		b.step, b.joint = stepKnows, true
	case AimElection:
		b.step = faultSteps[r.IntN(4)]
	}
	if r.IntN(3) == 0 && ne.w.opt.Dynamic.Aim != AimDrain {
		b.host = h
	}
	b.inject = func(h *host) {
		if !ne.w.faults.healed {
			did(ne.injectInChange(h, down, r))
		}
	}
	ne.pending = append(ne.pending, b)
}

// electionMessages are the messages of an election. Polls and reports are frequent: polls are left
// out, and reports are listed only once.
var electionMessages = [...]vote.Kind{
	vote.KindPrepare, vote.KindPrepared, vote.KindAccept, vote.KindAccept, vote.KindAccepted, vote.KindAccepted,
	vote.KindElectorate, vote.KindElectorate, vote.KindReport,
}

// triggerByMessage triggers a pending fault for a message of an election.
func (ne *nemesis) triggerByMessage(h *host, kind vote.Kind, sends bool) {
	ne.triggerFirst(h, func(b *pendingFault) bool { return b.kind == kind && b.step == stepReceives-step(bit(sends)) })
}

// trigger triggers a pending fault for any other step.
func (ne *nemesis) trigger(h *host, s step, e *vote.Electorate) {
	ne.triggerFirst(h, func(b *pendingFault) bool { return b.step == s && (e == nil || b.any || e.Joint() == b.joint) })
}

// triggerFirst triggers the first matching fault as soon as the event of the step is over.
func (ne *nemesis) triggerFirst(h *host, meant func(*pendingFault) bool) {
	i := slices.IndexFunc(ne.pending, func(b *pendingFault) bool {
		return (b.host == nil || b.host == h) && meant(b) && (b.only == nil || b.only())
	})
	if i < 0 {
		return
	}
	b := ne.pending[i]
	if b.nth > 0 {
		b.nth--
		return
	}
	ne.pending = slices.Delete(ne.pending, i, i+1)
	ne.w.At(0, func() { b.inject(h) })
}

// injectInChange injects a fault into a change after a step taken by host h. It reports whether the
// fault had an effect.
func (ne *nemesis) injectInChange(h *host, down time.Duration, r *rand.Rand) bool {
	e := ne.w.dynamic.decided[ne.w.dynamic.newest]
	var deciding []*host // without h
	for _, o := range ne.w.hosts {
		if o != h && ne.votesIn(e.Deciding(), o) {
			deciding = append(deciding, o)
		}
	}
	way, d := bothWays, ne.faultDuration(r)
	if r.IntN(2) == 0 {
		way = direction(r.IntN(2))
	}
	switch ne.kindOfFault(r) {
	case 0: // the node crashes, with or without its save under way
		return ne.dies(h, down, r)
	// The node crashes, the next node to learn of a decision is cut off, and another voter proposes
	// something else.
	case 1, 12:
		if len(ne.pending) < pendingMost {
			ne.pending = append(ne.pending, &pendingFault{step: stepKnows, any: true, inject: func(o *host) {
				if !ne.w.faults.healed {
					ne.cutFor(o, ne.w.hosts, way, d)
				}
			}})
		}
		if o := oneOf(deciding, r); o != nil {
			ne.w.At(ne.w.opt.MaxTTL/10, func() { ne.proposesFor(o, r, d, func(bool) {}) })
		}
		return ne.dies(h, ne.w.opt.MaxTTL/10, r)
	case 13: // all other deciding voters crash and come back soon
		did := false
		for _, o := range deciding {
			did = ne.dies(o, ne.w.opt.MaxTTL/10, r) || did
		}
		return did
	case 2: // the node is cut off from all others, in either direction or both
		return ne.cutFor(h, ne.w.hosts, way, d)
	case 3: // the node is cut off from some of the deciding voters
		return ne.cutFor(h, some(deciding, r), way, d)
	case 4: // the node stands still
		return ne.w.faults.haltFor(h, pauseStopped, d)
	case 5: // a node holding a key, or waiting for one, stands still
		return ne.w.faults.haltFor(ne.user(r), pauseStopped, d)
	case 6: // such a node is cut off from some of the others
		return ne.cutFor(ne.user(r), some(ne.w.hosts, r), way, d)
	case 7, 8: // such a node is cut off from all others
		return ne.cutFor(ne.user(r), ne.w.hosts, way, d)
	case 14: // all nodes holding a key are cut off from all others
		did := false
		for _, k := range ne.w.judge.lockKeys {
			for _, q := range k.holds {
				did = ne.cutFor(q.p.host, ne.w.hosts, way, ne.w.opt.MaxTTL/2+fault.Within(r, ne.w.opt.MaxTTL)) || did
			}
		}
		return did
	// Holders and some of the deciding voters are on one side of a partition, all others on the
	// other side.
	case 9:
		return ne.cutHolders(some(deciding, r), way, d, r)
	// The other deciding voters go on with the holders for longer than a drain, and learn nothing
	// of the change.
	default:
		return ne.cutHolders(deciding, bothWays, ne.w.opt.MaxTTL+fault.Within(r, ne.w.opt.MaxTTL), r)
	}
}

// kindOfFault draws the kind of fault by the world's aim.
func (ne *nemesis) kindOfFault(r *rand.Rand) int {
	switch ne.w.opt.Dynamic.Aim {
	case AimDrain:
		return pickInt(r, 14, 14, 14, 5, 7, 10, 10, 9)
	case AimElection:
		return pickInt(r, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4)
	case AimMinToken:
		return pickInt(r, 3, 6, 7, 9, 13, 13, 13, 0, 2)
	default:
		return r.IntN(15)
	}
}

// direction is the direction of a cut between a node and others.
type direction uint8

const (
	sendsNothing direction = iota
	receivesNothing
	bothWays
)

// ways appends the directed links cut between two hosts.
func (d direction) ways(ways [][2]*host, from, to *host) [][2]*host {
	if d != receivesNothing {
		ways = append(ways, [2]*host{from, to})
	}
	if d != sendsNothing {
		ways = append(ways, [2]*host{to, from})
	}
	return ways
}

// faultDuration draws the duration of a fault: mostly about as long as a drain, or a part of a
// drain.
func (ne *nemesis) faultDuration(r *rand.Rand) time.Duration {
	ttl := ne.w.opt.MaxTTL
	switch r.IntN(4) {
	case 0:
		return fault.Within(r, ttl)
	case 1, 2:
		return ttl/2 + fault.Within(r, ttl)
	default:
		return ttl + fault.Within(r, 2*ttl)
	}
}

func (ne *nemesis) dies(h *host, down time.Duration, r *rand.Rand) bool {
	// The peers notice the crash at once, or each in its own time. All messages sent are delivered,
	// or only a part of them.
	how := ending(r.IntN(2))
	rng := r
	if r.IntN(2) == 0 {
		rng = nil
	}
	if !ne.w.crash(h, how, rng) {
		return false
	}
	ne.w.faults.bringBack(h, fault.Within(r, down+1))
	return true
}

// user returns a node holding a key, or waiting for a key; nil if there is none.
func (ne *nemesis) user(r *rand.Rand) *host {
	var holders, waiters []*host
	for _, k := range ne.w.judge.lockKeys {
		for _, q := range k.holds {
			holders = append(holders, q.p.host)
		}
		for _, q := range k.waits {
			waiters = append(waiters, q.p.host)
		}
	}
	if len(holders) == 0 || r.IntN(4) == 0 {
		return oneOf(waiters, r)
	}
	return oneOf(holders, r)
}

// cutFor cuts a host off from others for a while.
func (ne *nemesis) cutFor(h *host, others []*host, way direction, d time.Duration) bool {
	if h == nil {
		return false
	}
	var ways [][2]*host
	for _, o := range others {
		if o != h {
			ways = way.ways(ways, h, o)
		}
	}
	return ne.cutWays(ways, d)
}

// cutHolders puts most holders of all keys, and some voters, on one side of a partition.
func (ne *nemesis) cutHolders(side []*host, way direction, d time.Duration, r *rand.Rand) bool {
	side = slices.Clone(side)
	for _, k := range ne.w.judge.lockKeys {
		for _, q := range k.holds {
			if !slices.Contains(side, q.p.host) && r.IntN(4) > 0 {
				side = append(side, q.p.host)
			}
		}
	}
	var ways [][2]*host
	for _, a := range side {
		for _, b := range ne.w.hosts {
			if !slices.Contains(side, b) {
				ways = way.ways(ways, a, b)
			}
		}
	}
	return ne.cutWays(ways, d)
}

// cutWays cuts directed links for a while.
func (ne *nemesis) cutWays(ways [][2]*host, d time.Duration) bool {
	if len(ways) == 0 {
		return false
	}
	ne.w.fig.Partitions++
	for _, way := range ways {
		ne.w.net.setCut(way[0], way[1], 1)
	}
	ne.w.faults.lasting(d, func() {
		for _, way := range ways {
			ne.w.net.setCut(way[0], way[1], -1)
		}
	})
	return true
}

// votesIn reports whether a host, with its current directory, is among the given voters.
func (ne *nemesis) votesIn(voters []vote.Elector, h *host) bool {
	return slices.Contains(voters, vote.Elector{Name: h.name, Dir: h.disk.state.Dir})
}

// proposesFor makes a node propose, as soon as possible within the given time, some of the running
// nodes as the next voters. Gossip may suggest anything, and so may a proposal.
func (ne *nemesis) proposesFor(h *host, r *rand.Rand, left time.Duration, did func(bool)) {
	if ne.w.faults.healed {
		return
	}
	if p := h.p; p != nil && h.hung == pauseNone {
		err := p.m.Propose(p.read(ne.w.now), ne.someVoters(h, r))
		ne.w.settle(p)
		if err == nil {
			did(true)
			return
		}
	}
	if again := ne.w.opt.MaxTTL / 20; left > again {
		ne.w.At(again, func() { ne.proposesFor(h, r, left-again, did) })
	}
}

// someVoters draws some of the running nodes with a directory: mostly at least three.
func (ne *nemesis) someVoters(h *host, r *rand.Rand) []vote.Elector {
	var voters []vote.Elector
	for _, o := range ne.w.hosts {
		if o.p != nil && o.disk.exists && o.disk.state.Electorate.Version > 0 && ne.w.net.isOpen(h, o) && ne.w.net.isOpen(o, h) {
			voters = append(voters, vote.Elector{Name: o.name, Dir: o.disk.state.Dir})
		}
	}
	r.Shuffle(len(voters), func(i, j int) { voters[i], voters[j] = voters[j], voters[i] })
	// Nodes that don't vote yet come first.
	if e := ne.w.dynamic.decided[ne.w.dynamic.newest]; r.IntN(2) == 0 || ne.w.opt.Dynamic.Aim == AimDrain || ne.w.opt.Dynamic.Aim == AimMinToken {
		slices.SortStableFunc(voters, func(v, o vote.Elector) int { return bit(e.Has(v)) - bit(e.Has(o)) })
	}
	n := pickInt(r, 1, 2, 3, 3, 3, 4, 5)
	if ne.w.opt.Dynamic.Aim == AimElection && r.IntN(4) > 0 { // ambushes need three or five voters
		n = pickInt(r, 3, 3, 5)
	}
	if n = min(n, len(voters)); n == 4 && ne.w.opt.Dynamic.Aim == AimElection {
		n = 3
	}
	return voters[:n]
}

// oneOf draws one of the given hosts; nil if there are none.
func oneOf(hosts []*host, r *rand.Rand) *host {
	if len(hosts) == 0 {
		return nil
	}
	return hosts[r.IntN(len(hosts))]
}

// some draws some of the given hosts, at least one if there are any.
func some(hosts []*host, r *rand.Rand) []*host {
	chosen := slices.Clone(hosts)
	r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	if len(chosen) == 0 {
		return nil
	}
	return chosen[:1+r.IntN(len(chosen))]
}
