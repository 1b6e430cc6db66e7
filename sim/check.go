package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/check"
)

// Violation is a broken invariant.
type Violation struct {
	Check string // the name of the check
	At    time.Duration
	Text  string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s violated at %v: %s", v.Check, v.At, v.Text)
}

// The names of the checks that compare a world with its nodes' own records. Those of package check
// have names there.
const (
	checkTokenBounds = "token bounds"     // no token runs ahead of all voters' clocks
	checkLost        = "lost stays lost"  // a lease never comes back after its end
	checkNotified    = "notified in time" // a holder is notified of a loss before its lease ends
	// checkValidity: a lease never outlasts the promises of a majority for this very lease.
	checkValidity = "validity"
	checkQuiet    = "quiet"  // a voter's votes don't count during its startup quarantine
	checkTry      = "try"    // a TryLock ends within a TTL
	checkUnlock   = "unlock" // a release is answered within a TTL
	// checkSeen: an inspection shows all grants and releases completed before the inspection began.
	checkSeen = "seen"
	// checkWatch: a watch reports only events that happened, and reports all of them or a gap.
	checkWatch    = "watch"
	checkAlarm    = "alarm"    // a node reports no broken invariant of its own
	checkLiveness = "liveness" // after the faults every request is served
	checkBaseline = "baseline" // after the drain no state is left behind
	checkEvents   = "events"   // a node reports only plausible events to its shell
	checkPanic    = "panic"    // no node panics
	checkCodec    = "codec"    // every message sent can be encoded and decoded
	checkNumbers  = "numbers"  // a node numbers its requests consecutively
	checkDrift    = "drift"    // no clock within its bound is reported as drifting
	checkRefusal  = "refusal"  // a request is refused only for a valid reason
	// checkDigests: a voter keeps for a session exactly the state expected by the session's
	// requester.
	checkDigests = "digests"
	// checkElectorate: each version has a single electorate, decided by the version before.
	checkElectorate = "electorate"
	// checkMisconfigured: a misconfigured process stops itself, once it has met the mesh.
	checkMisconfigured = "misconfigured"
)

// judge is the world's own knowledge: which leases the nodes believe in, and which messages the
// voters have sent.
type judge struct {
	w             *World
	lockKeys      []*lockKey
	byName        map[vote.Key]*lockKey
	bySession     map[vote.SessionID]*process
	hasDuplicates bool            // two processes share one name, so alarms are expected
	deaf          map[string]bool // checks disabled by a test, to see whether others notice
}

// lockKey is a key from the world's point of view.
type lockKey struct {
	i          int
	name       vote.Key
	upgrading  time.Duration // when an upgrade was last asked for
	holds      []*Request    // granted requests, neither lost nor released
	past       []*Request    // leases that are over but still keep the key
	kept       *Request      // the last lease of past, until the next grant
	waits      []*Request    // waiting requests in the order of their arrival
	changed    Moment        // when a request last changed its state
	mixed      bool          // also used by other than plain exclusive requests
	lossAt     Moment        // when a lease was last lost
	holderDied bool          // the holder died, and no request was granted since
	tokens     check.Tokens
	resource   check.Resource
}

func (j *judge) setUp() {
	j.w.histories.setUp()
	j.w.resources.rng = rand.New(j.w.chance("resource"))
	j.byName = make(map[vote.Key]*lockKey)
	j.bySession = make(map[vote.SessionID]*process)
}

// keyOf returns the world's record of a key.
func (j *judge) keyOf(name vote.Key) *lockKey {
	k := j.byName[name]
	if k == nil {
		only := j.w.opt.TokensOnly
		k = &lockKey{
			i: len(j.lockKeys), name: name, tokens: check.Tokens{TokensOnly: only, Report: j.violate},
			resource: check.Resource{TokensOnly: only, Report: j.violate},
		}
		j.lockKeys = append(j.lockKeys, k)
		j.byName[name] = k
	}
	return k
}

// violate records the first violation and ends the run.
func (j *judge) violate(rule, format string, args ...any) {
	if j.w.failed != nil || j.deaf != nil && j.deaf[rule] {
		return
	}
	j.w.failed = &Violation{rule, j.w.Now(), fmt.Sprintf(format, args...)}
	j.w.note(nil, "VIOLATION of %s: %s", rule, j.w.failed.Text)
}

// onEvent handles an event reported by a node to its shell.
func (j *judge) onEvent(p *process, e *quorum.Event) {
	j.w.mix(uint64(e.Kind) | uint64(e.Number)<<8)
	switch e.Kind {
	case quorum.EventValidity:
		j.onValidity(p, e)
		return
	case quorum.EventQueryDone, quorum.EventNews, quorum.EventElectorate:
		if p.inspections != nil && e.Kind == quorum.EventQueryDone {
			j.w.inspectors.shown(p, e)
		}
		if p.watch != nil {
			j.w.watchers.watched(p, e)
		}
		return
	case quorum.EventValueSet:
		j.w.load.noted(p, e)
		return
	case quorum.EventContended, quorum.EventRevokeForwarded, quorum.EventNotice:
		return // contention, revocations and warnings decide nothing
	case quorum.EventDrift:
		j.w.note(p.host, "finds drift: %s", e.Text)
		j.w.fig.Drifts++
		if !j.w.opt.TokensOnly {
			j.violate(checkDrift, "%s: %s", p.host.alias, e.Text)
		}
		return
	case quorum.EventAlarm:
		j.w.note(p.host, "alarm: %s", e.Text)
		j.w.fig.Alarms++
		// A message of an incarnation long dead may arrive so late that a voter takes the sender
		// for a duplicate process and reports an alarm. But no process may be told to be the
		// duplicate.
		if !j.hasDuplicates && !strings.HasPrefix(e.Text, "two processes") && !j.w.ofLists(e.Text) && !j.w.population.countedAlarm(e.Text) && !j.w.misconfigured.givesWay(p, e.Text) && !j.w.dynamic.diskAlarm(p, e.Text) && !j.w.mayBeLate(e.Text) {
			j.violate(checkAlarm, "%s: %s", p.host.alias, e.Text)
		}
		return
	}
	r := p.requests[e.Number]
	if r == nil {
		j.violate(checkEvents, "%s reports %+v of a request that is gone", p.host.alias, *e)
		return
	}
	switch e.Kind {
	case quorum.EventGranted:
		switch r.State {
		case Waiting:
			j.grant(p, r, e)
		case Releasing: // given up during the grant: the shell and the node both release it
		default:
			j.violate(checkEvents, "%s is granted request %d, which is %v", p.host.alias, r.Number, r.State)
		}
	case quorum.EventMoved:
		if r.State == Granted {
			j.onMoved(r, e.Group)
		}
	case quorum.EventFailed:
		j.w.note(p.host, "fails request %d: %s", r.Number, e.Wait.Text)
		if r.State != Waiting && r.State != Releasing {
			j.violate(checkEvents, "%s fails request %d, which is %v", p.host.alias, r.Number, r.State)
			return
		}
		j.w.fig.Failures++
		j.tryInTime(r)
		r.Wait = e.Wait
		j.w.refusals.checkRefusal(r)
		j.w.load.finish(r, Failed)
	case quorum.EventLost:
		j.onLost(p, r)
	case quorum.EventReleased:
		if r.State != Releasing {
			j.violate(checkEvents, "%s releases request %d, which is %v", p.host.alias, r.Number, r.State)
			return
		}
		r.Wait = e.Wait
		if took, most := p.clock.fastAt(j.w.now).Sub(r.released), p.host.ttl+slack; took > most && r.stops == p.stops {
			j.violate(checkUnlock, "%s took %v to end request %d", p.host.alias, took, r.Number)
		}
		j.w.note(p.host, "ends request %d", r.Number)
		j.w.load.finish(r, Released)
	default:
		j.violate(checkEvents, "%s reports %+v", p.host.alias, *e)
	}
}

// slack is how much later than promised a report may come, since timers fire late.
const slack = 3 * maxLate

func (j *judge) tryInTime(r *Request) {
	if took := r.p.clock.fastAt(j.w.now).Sub(r.asked); r.Try && took > r.p.host.ttl+slack && r.stops == r.p.stops {
		j.violate(checkTry, "%s took %v to end TryLock %d", r.p.host.alias, took, r.Number)
	}
}

// believes reports whether the request's node, if asked now, would tell its user that the lease is
// held. As Err does, believes reads the clock.
func (j *judge) believes(r *Request) bool {
	end := r.end
	if j.w.opt.Unjudged {
		end = r.p.groups[r.group]
	}
	return r.State == Granted && !r.p.dead && r.p.clock.fastAt(j.w.now) < end
}

// grant handles the moment when a user begins to believe in a lease.
func (j *judge) grant(p *process, r *Request, e *quorum.Event) {
	k := r.key
	j.w.load.unwait(r)
	j.w.fig.Acquisitions++
	j.tryInTime(r)
	r.State, r.Token, r.Slot, r.Had = Granted, e.Token, e.Slot, j.w.Now()
	j.w.tokens.setAlias(r)
	r.fixed = p.clock.fastAt(j.w.now).Add(r.Ask.Length)
	k.changed = j.w.now
	j.w.note(p.host, "is granted request %d, %q with token %d", r.Number, k.name, e.Token)
	j.w.picturesGrant(r)
	if k.lossAt != 0 {
		j.w.fig.Takeovers++
		k.lossAt = 0
	}
	if k.holderDied {
		j.w.marks.mark(markHolderDied)
		k.holderDied = false
	}
	j.assign(r, e.Group)
	if j.w.failed != nil {
		return
	}
	if !j.believes(r) {
		j.violate(checkEvents, "%s is granted request %d when its validity is over", p.host.alias, r.Number)
	}
	j.w.exclusion.checkExclusion(r)
	if j.w.failed != nil {
		return
	}
	rise := k.tokens.Granted(j.w.Now(), &r.Lease)
	if j.w.failed != nil {
		return
	}
	if rise.Excused {
		j.w.fig.Excused++
	}
	j.w.histories.granted(r, rise.Behind)
	k.holds = append(k.holds, r)
	j.w.tokens.checkBounds(r)
	j.w.validity.checkValidity(r)
	j.w.order.checkOrder(r)
	j.w.marks.marksOfGrant(r)
	j.w.resources.writes(r)
	j.w.load.granted(r)
	if r.Ask.Value {
		j.w.load.values(r)
	}
	if r.base != nil {
		j.w.load.upgraded(r)
	}
}

// assign puts a lease into a lease group; the node must have reported the group's end before.
func (j *judge) assign(r *Request, g quorum.GroupID) {
	end, ok := r.p.groups[g]
	if !ok {
		j.violate(checkEvents, "%s names group %d before its end", r.Node, g)
		return
	}
	r.group = g
	j.ends(r, end)
}

// ends records when a lease ends.
func (j *judge) ends(r *Request, end vote.Instant) {
	r.end, r.over = end, end
	j.place(r)
	j.checkLength(r)
}

// place converts the end of a lease into world time at the current rate of the node's clock.
func (j *judge) place(r *Request) {
	end := r.end
	r.until = r.p.clock.whenFast(end.Add(r.margin()))
	r.EndAt = r.p.clock.whenFast(end)
}

// onValidity moves the end of a lease group. A lease stays lost once its end has passed.
func (j *judge) onValidity(p *process, e *quorum.Event) {
	p.groups[e.Group] = e.Until
	if j.w.opt.Unjudged {
		return
	}
	fast := p.clock.fastAt(j.w.now)
	for _, k := range j.lockKeys {
		for _, r := range k.holds {
			if r.p == p && r.group == e.Group && r.State == Granted {
				j.extend(r, fast, e.Until)
			}
		}
	}
}

func (j *judge) onMoved(r *Request, g quorum.GroupID) {
	fast, old := r.p.clock.fastAt(j.w.now), r.end
	j.assign(r, g)
	if j.w.failed == nil {
		end := r.end
		r.end = old
		j.extend(r, fast, end)
	}
}

func (j *judge) extend(r *Request, fast, end vote.Instant) {
	if fast >= r.end && end > fast {
		j.violate(checkLost, "%s's lease of %q with token %d has ended and is extended", r.Node, r.Key, r.Token)
		if j.w.failed != nil {
			return
		}
	}
	if end > r.end {
		j.w.marks.marksOfMore(r)
	}
	j.ends(r, end)
	r.over = max(end, fast)
	if fast < end {
		j.w.validity.checkValidity(r)
	}
}

// onLost handles a node's report that a lease is over.
func (j *judge) onLost(p *process, r *Request) {
	if r.State == Releasing { // the lease ended before the release
		r.Expired = true
		j.w.load.finish(r, Released)
		return
	}
	if r.State != Granted {
		j.violate(checkEvents, "%s loses request %d, which is %v", p.host.alias, r.Number, r.State)
		return
	}
	fast := p.clock.fastAt(j.w.now)
	j.w.note(p.host, "loses request %d, %q with token %d", r.Number, r.Key, r.Token)
	switch {
	// A voter stepped back, so its promises are void. What the lease keeps, its lock-delay, begins
	// now.
	case fast < r.end && j.w.conversion.mayForfeit():
		if j.w.lists == nil {
			r.EndAt = j.w.now
		}
	// The process has given up its electorate on hearing of another mesh. The voters hear of the
	// loss, and those that go on under the electorate may grant the key.
	case fast < r.end && j.w.opt.ByCount != nil:
		r.EndAt = j.w.now
	case fast < r.end:
		j.violate(checkEvents, "%s gives up request %d %v before its end", p.host.alias, r.Number, r.end.Sub(fast))
	case fast > r.over.Add(r.margin()) && !j.stoppedSince(p):
		j.violate(checkNotified, "%s is notified of a loss %v after the lease's end", p.host.alias, fast.Sub(r.over))
	}
	j.w.fig.Losses++
	r.key.lossAt = j.w.now
	j.unhold(r)
	j.w.load.finish(r, Lost)
}

// stoppedSince reports whether a process has resumed only just now.
func (j *judge) stoppedSince(p *process) bool { return p.woke != 0 && j.w.now <= p.woke.Add(slack) }

// unhold ends the belief in a lease.
func (j *judge) unhold(r *Request) {
	k := r.key
	for i, o := range k.holds {
		if o == r {
			k.holds = append(k.holds[:i], k.holds[i+1:]...)
			break
		}
	}
	if r.KeptUntil() > j.w.now {
		k.past = append(k.past, r)
		r.overAt, k.kept = j.w.now, r
	}
}

// onProcessDead ends all requests and leases of a dead process.
func (j *judge) onProcessDead(p *process) {
	for n := 1; n < len(p.asked); n++ {
		if r := p.requests[vote.Number(n)]; r != nil {
			if r.State == Granted {
				j.unhold(r)
				r.key.lossAt = j.w.now
			}
			j.w.load.finish(r, Crashed)
		}
	}
}

// leasesChecked is how many leases of one key are examined at most after each event.
const leasesChecked = 32

// check examines the world after an event of a process.
func (j *judge) check(p *process) {
	if p.m.Voter() == nil || j.w.opt.Unjudged {
		return
	}
	for _, k := range j.lockKeys {
		// With hundreds of holders, examining all of them each time is expensive; then each event
		// examines a part, in turn.
		some := uint64(len(k.holds)/leasesChecked + 1)
		for i, r := range k.holds {
			if (some == 1 || (uint64(i)+j.w.fig.Events)%some == 0) && j.believes(r) {
				j.w.validity.checkValidity(r)
			}
		}
		j.w.idle.checkIdle(k)
	}
}
