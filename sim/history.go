package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// history is a record that users could write themselves: their calls, with the times and the
// results. Porcupine (Athalye 2017, after Horn and Kroening, "Faster linearizability checking via
// P-compositionality", 2015) searches for an order of the calls, each at an instant between call
// and return, in which a single fenced lock without nodes, voters or messages gives the same
// results. The judge's other checks look inside the mesh; this check knows nothing of the mesh.
//
// For keys with other than plain exclusive requests, Porcupine is given the histories of the leases
// that exclude each other: each slot of a semaphore is such a lock, and so are the writers of a key
// with readers. The rule that readers never meet a writer needs no search: the exclusion check
// finds any overlap of intervals whenever a lease is granted. Results of a TryLock on such keys
// need no search either: see taken.
//
// The history also contains two things other than calls. The end of a lease that was not released
// is an event of its own, at some time after the holder stopped believing in the lease. And a call
// of unknown outcome, because its process crashed or gave up, may have had an effect or none.
type history struct {
	ops []porcupine.Operation
	// open lists unconfirmed operations: they took effect before the next grant excluded by them.
	open map[one][]int
	// taken lists the refused TryLocks on keys with other than plain exclusive requests.
	taken []porcupine.Operation
}

// histories keeps and checks the history of a world.
type histories struct {
	w    *World
	hist *history // nil when no history is kept
}

// one is a unit of exclusion, held by a single exclusive lease at a time: a key, or a slot of a
// key.
type one struct {
	key  *lockKey
	slot vote.Slot
}

func (r *Request) one() one { return one{r.key, r.Slot} }

type opKind uint8

const (
	opLock    opKind = iota // returned a token
	opTaken                 // a TryLock refused because of another lease
	opUnknown               // a lock of unknown outcome
	opUnlock
	opExpire
)

var opNames = [...]string{"lock", "trylock", "lock of unknown outcome", "unlock", "expiry"}

// op is an operation, input and output together.
type op struct {
	kind  opKind
	r     *Request
	token vote.Token
	// excused is set if a voter had to take tokens from its clock, and the clock stood behind the
	// last token; see protocol.md, "Tokens".
	excused bool
}

func (o op) String() string {
	if o.kind == opLock {
		return fmt.Sprintf("%s by %s's request %d: token %d", opNames[o.kind], o.r.Node, o.r.Number, o.token)
	}
	return fmt.Sprintf("%s by %s's request %d", opNames[o.kind], o.r.Node, o.r.Number)
}

// fenced is the state of a fenced lock.
type fenced struct {
	by   *Request // nil when the lock is free
	last vote.Token
}

// next returns the possible states of a lock after an operation; none if the operation is
// impossible. An operation of unknown outcome has two possible states, and Porcupine goes on with
// both.
func (s fenced) next(o op) []any {
	switch o.kind {
	case opLock:
		if s.by == nil && (o.token > s.last || o.excused) {
			return []any{fenced{o.r, o.token}}
		}
		return nil
	case opTaken:
		if s.by != nil {
			return []any{s}
		}
		return nil
	case opUnknown:
		if s.by == nil {
			return []any{s, fenced{o.r, s.last}}
		}
	case opUnlock, opExpire: // they end only their own lease
		if s.by == o.r {
			s.by = nil
		}
	}
	return []any{s}
}

// fencedLock is the model for checking a history: a lock held by one request at a time, each with a
// token above all tokens before.
var fencedLock = (&porcupine.NondeterministicModel{
	Init:              func() []any { return []any{fenced{}} },
	Step:              func(s, in, _ any) []any { return s.(fenced).next(in.(op)) },
	DescribeOperation: func(in, _ any) string { return in.(op).String() },
}).ToModel()

// add records an operation. An unconfirmed operation stays open until its key is granted again.
func (h *history) add(o op, call, back Moment, confirmed bool) {
	if h == nil {
		return
	}
	if !confirmed {
		if h.open == nil {
			h.open = make(map[one][]int)
		}
		h.open[o.r.one()] = append(h.open[o.r.one()], len(h.ops))
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: o.r.p.host.i, Input: o, Call: int64(min(call, back)), Return: int64(back)})
}

// granted records a lock call that has returned.
func (h *history) granted(w *World, r *Request, excused bool) {
	if h == nil {
		return
	}
	w.histories.closeOpen(r.one())
	if r.Mode == vote.Shared {
		return
	}
	h.add(op{kind: opLock, r: r, token: r.Token, excused: excused}, Moment(r.Asked), w.now, true)
}

// closeOpen sets the latest time of the unconfirmed operations on a key: now or, if no fault has
// been active for long, the time by which all voters have ended the sessions of dead processes.
func (hs *histories) closeOpen(k one) {
	latest := hs.w.now
	if since := hs.w.order.wellSince(); since != never {
		latest = min(latest, since.add(2*hs.w.opt.MaxTTL+servedFixed))
	}
	for _, i := range hs.hist.open[k] {
		o := &hs.hist.ops[i]
		o.Return = max(o.Return, min(int64(hs.w.now), max(int64(latest), o.Call+int64(2*hs.w.opt.MaxTTL+servedFixed))))
	}
	delete(hs.hist.open, k)
}

// over records the end of a request, before the request's state changes.
func (h *history) over(w *World, r *Request, s State) {
	if h == nil {
		return
	}
	if r.Mode == vote.Shared && s != Failed {
		return
	}
	later := Moment(0)
	if r.Had == 0 && (s == Crashed || s == Released) {
		until := w.now // a dead process, or an abandoned request, wins nothing any more
		if r.State == Releasing {
			until = r.gaveBack
		}
		h.add(op{kind: opUnknown, r: r}, Moment(r.Asked), until, true)
		later = 1 // the end comes at least a nanosecond after the possible beginning
	}
	switch {
	case r.State == Releasing:
		confirmed := s == Released && r.Wait.Reason == quorum.WaitNone && !r.expired
		if r.Had != 0 && r.endAt < r.gaveBack { // by a process unaware of the lease's end
			h.add(op{kind: opExpire, r: r}, r.endAt, w.now, confirmed)
		} else {
			h.add(op{kind: opUnlock, r: r}, r.gaveBack+later, w.now+later, confirmed)
		}
	case s == Lost, s == Crashed:
		end := w.now + later
		if r.Had != 0 {
			end = min(r.endAt, end)
		}
		h.add(op{kind: opExpire, r: r}, end, w.now+later, false)
	case s == Failed && r.Try && w.histories.isBehind(r.p):
		// The voters known to the node may have granted a lease, and a majority of a newer
		// electorate confirmed its end without them (seed 106828694, following). Exclusion holds;
		// only the result "taken" is out of date.
	case s == Failed && r.Try && r.Wait.Reason == quorum.WaitHeld && r.p.clock.fastAt(w.now).Sub(r.asked) < min(r.p.host.ttl, r.p.host.least):
		// A TryLock that has used up its time may have met other waiting requests instead.
		h.add(op{kind: opTaken, r: r}, Moment(r.Asked), w.now, true)
	}
}

// isBehind reports whether a process doesn't know the newest electorate.
func (hs *histories) isBehind(p *process) bool {
	if hs.w.opt.Counted != nil {
		return hs.w.population.isBehindCounted(p)
	}
	return hs.w.opt.Following != nil && p.knew < hs.w.dynamic.newest
}

// pending records a call without a return at the end of the run, or a lease over without its loss
// reported yet.
func (h *history) pending(w *World, r *Request) {
	if r.Mode == vote.Shared {
		return
	}
	if r.Had == 0 {
		h.add(op{kind: opUnknown, r: r}, Moment(r.Asked), w.now, true)
	}
	switch {
	case r.Had != 0 && r.endAt < w.now:
		h.add(op{kind: opExpire, r: r}, r.endAt, w.now, true)
	case r.State == Releasing:
		h.add(op{kind: opUnlock, r: r}, r.gaveBack, w.now, true)
	}
}

// historyPatience bounds the search for an order, which usually takes milliseconds but has no upper
// limit. A search given up is counted and is no violation: the speed of a machine must not decide
// what a seed means.
const historyPatience = 2 * time.Second

// needed drops locks of unknown outcome, with their ends, unless they overlap a TryLock refused
// because of another lease. An unobserved lock may always have been without effect, so an order
// found without these locks is also an order with them; and each additional lock doubles the
// search.
func needed(ops []porcupine.Operation) []porcupine.Operation {
	var met []porcupine.Operation
	till := make(map[*Request]int64)
	unknown := make(map[*Request]bool)
	for _, o := range ops {
		r := o.Input.(op).r
		till[r] = max(till[r], o.Return)
		switch o.Input.(op).kind {
		case opUnknown:
			unknown[r] = true
		case opTaken:
			met = append(met, o)
		}
	}
	return slices.DeleteFunc(ops, func(o porcupine.Operation) bool {
		r := o.Input.(op).r
		return unknown[r] && !slices.ContainsFunc(met, func(m porcupine.Operation) bool { return m.Return >= int64(r.Asked) && m.Call <= till[r] })
	})
}

// checkHistory searches for an order of all calls on each key.
func (hs *histories) checkHistory() {
	h := hs.hist
	if h == nil || hs.w.opt.TokensOnly {
		return
	}
	for k := range h.open { // in any order
		hs.closeOpen(k)
	}
	for _, host := range hs.w.hosts {
		if host.p != nil {
			for n := range host.p.asked {
				if r := host.p.requests[vote.Number(n)]; r != nil {
					h.pending(hs.w, r)
				}
			}
		}
	}
	hs.hist.taken = nil
	var all []one
	by := make(map[one][]porcupine.Operation)
	for _, o := range h.ops {
		k := o.Input.(op).r.one()
		if k.key.mixed && o.Input.(op).kind == opTaken {
			h.taken = append(h.taken, o)
			continue
		}
		if by[k] == nil {
			all = append(all, k)
		}
		by[k] = append(by[k], o)
	}
	hs.checkTaken()
	for _, k := range all {
		hs.w.fig.Calls += uint64(len(by[k]))
		ops := needed(by[k])
		switch result, info := porcupine.CheckOperationsVerbose(fencedLock, ops, historyPatience); result {
		case porcupine.Ok:
		case porcupine.Unknown:
			hs.w.fig.Undecided++
		default:
			hs.w.judge.violate(CheckHistory, "no order of the %d calls on %q explains their results:%s", len(ops), k.key.name, firstUnexplained(ops, info))
		}
	}
}

// checkTaken demands a request to which a refused TryLock on a key of several kinds can have lost:
// the request held the key at the time or may have held the key, as far as users can know; for a
// TryLock of a reader or of a permit, a waiting request will do as well. A failed request with a
// delay or a length of its own may have been a lease, from the view of voters that couldn't be told
// of the failure.
func (hs *histories) checkTaken() {
	// A voter may know of an ended lease for this long: a session, a delay, and the messages in
	// flight.
	linger := 4*hs.w.opt.MaxTTL + servedFixed
	for _, t := range hs.hist.taken {
		r := t.Input.(op).r
		somebody := false
		for _, p := range hs.w.judge.bySession {
			somebody = somebody || slices.ContainsFunc(p.asked[1:], func(o *Request) bool {
				had := o.Had != 0 || o.State != Failed || o.Ask.Delay > 0 || o.Ask.MinHold > 0 || o.Ask.Length > 0
				if o.key != r.key || o == r || int64(o.Asked) > t.Return || r.Mode == vote.Exclusive && !had {
					return false
				}
				end := o.Ended
				if o.State != Released || o.Wait.Reason != quorum.WaitNone || o.expired || o.Ask.MinHold > 0 {
					end += linger
				}
				return o.State < Failed || o.State == Releasing || int64(end) >= t.Call
			})
		}
		if !somebody {
			hs.w.judge.violate(CheckHistory, "%s's TryLock of %q (%v), from %v to %v, is told that it is taken, and no request has it", r.Node, r.Key, r.Mode,
				time.Duration(t.Call), time.Duration(t.Return))
		}
	}
}

// shared records that an exclusive lease was downgraded.
func (h *history) shared(w *World, r *Request) {
	if h != nil {
		h.add(op{kind: opUnlock, r: r}, w.now, w.now+1, true)
	}
}

// firstUnexplained describes the first operation missing from the longest partial order found by
// Porcupine, together with all overlapping operations.
func firstUnexplained(ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	var first *porcupine.Operation
	for i := range ops {
		o := &ops[i]
		explained := slices.ContainsFunc(longest, func(l porcupine.Operation) bool { return l.Input == o.Input })
		if !explained && (first == nil || o.Return < first.Return) {
			first = o
		}
	}
	if first == nil {
		return ""
	}
	tell := func(o *porcupine.Operation) string {
		return fmt.Sprintf(" %v, from %v to %v", o.Input, time.Duration(o.Call), time.Duration(o.Return))
	}
	text := tell(first)
	for i := range ops {
		if o := &ops[i]; o != first && o.Return >= first.Call && o.Call <= first.Return {
			text += ";" + tell(o)
		}
	}
	return text
}
