package check

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// History is a record that users could write themselves: their calls, with the times and the
// results. Porcupine (Athalye 2017, after Horn and Kroening, "Faster linearizability checking via
// P-compositionality", 2015) searches for an order of the calls, each at an instant between call
// and return, in which a single fenced lock without nodes, voters or messages gives the same
// results. Other checks look inside the mesh; this check knows nothing of the mesh.
//
// For keys with other than plain exclusive requests, Porcupine is given the histories of the leases
// that exclude each other: each slot of a semaphore is such a lock, and so are the writers of a key
// with readers. The rule that readers never meet a writer needs no search: the exclusion check
// finds any overlap of intervals whenever a lease is granted. Results of a TryLock on such keys
// need no search either: see checkTaken.
//
// The history also contains two things other than calls. The end of a lease that was not released
// is an event of its own, at some time after the holder stopped believing in the lease. And a call
// of unknown outcome, because its process crashed or gave up, may have had an effect or none.
type History struct {
	Report Report
	// Rests is how long after the end of all faults a voter may know of a dead process's session.
	Rests time.Duration
	// Remembered is how long a voter may know of a lease that is over.
	Remembered time.Duration

	ops []porcupine.Operation
	// open lists unconfirmed operations: they took effect before the next grant excluded by them.
	open map[unit][]int
}

// unit is a unit of exclusion, held by a single exclusive lease at a time: a key, or a slot of a
// key.
type unit struct {
	key  string
	slot vote.Slot
}

func (r *Lease) unit() unit { return unit{r.Key, r.Slot} }

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
	r     *Lease
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
	by   *Lease // nil when the lock is free
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
func (h *History) add(o op, call, back Moment, confirmed bool) {
	if !confirmed {
		if h.open == nil {
			h.open = make(map[unit][]int)
		}
		h.open[o.r.unit()] = append(h.open[o.r.unit()], len(h.ops))
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: o.r.Host, Input: o, Call: int64(min(call, back)), Return: int64(back)})
}

// Granted records a lock call that has returned. Well is since when no fault is active, or Never;
// excused is set if tokens begin anew with the lease.
func (h *History) Granted(now, well Moment, r *Lease, excused bool) {
	h.closeOpen(r.unit(), now, well)
	if r.Mode == vote.Shared {
		return
	}
	h.add(op{kind: opLock, r: r, token: r.Token, excused: excused}, Moment(r.Asked), now, true)
}

// closeOpen sets the latest time of the unconfirmed operations on a key: now or, if no fault has
// been active for long, the time by which all voters have ended the sessions of dead processes.
func (h *History) closeOpen(k unit, now, well Moment) {
	latest := now
	if well != Never {
		latest = min(latest, well.Add(h.Rests))
	}
	for _, i := range h.open[k] {
		o := &h.ops[i]
		o.Return = max(o.Return, min(int64(now), max(int64(latest), o.Call+int64(h.Rests))))
	}
	delete(h.open, k)
}

// Over records the end of a request, before the request's state changes to s. Taken is set if the
// request was a TryLock that was told in time that the key is held.
func (h *History) Over(now Moment, r *Lease, s State, taken bool) {
	if r.Mode == vote.Shared && s != Failed {
		return
	}
	later := Moment(0)
	if r.Had == 0 && (s == Crashed || s == Released) {
		until := now // a dead process, or an abandoned request, wins nothing any more
		if r.State == Releasing {
			until = r.GaveBack
		}
		h.add(op{kind: opUnknown, r: r}, Moment(r.Asked), until, true)
		later = 1 // the end comes at least a nanosecond after the possible beginning
	}
	switch {
	case r.State == Releasing:
		if r.Had != 0 && r.EndAt < r.GaveBack { // by a process unaware of the lease's end
			h.add(op{kind: opExpire, r: r}, r.EndAt, now, r.Confirmed)
		} else {
			h.add(op{kind: opUnlock, r: r}, r.GaveBack+later, now+later, r.Confirmed)
		}
	case s == Lost, s == Crashed:
		end := now + later
		if r.Had != 0 {
			end = min(r.EndAt, end)
		}
		h.add(op{kind: opExpire, r: r}, end, now+later, false)
	case s == Failed && taken:
		h.add(op{kind: opTaken, r: r}, Moment(r.Asked), now, true)
	}
}

// Shared records that an exclusive lease was downgraded.
func (h *History) Shared(now Moment, r *Lease) {
	h.add(op{kind: opUnlock, r: r}, now, now+1, true)
}

// Pending records a call without a return at the end of the run, or a lease over without its loss
// reported yet.
func (h *History) Pending(now Moment, r *Lease) {
	if r.Mode == vote.Shared {
		return
	}
	if r.Had == 0 {
		h.add(op{kind: opUnknown, r: r}, Moment(r.Asked), now, true)
	}
	switch {
	case r.Had != 0 && r.EndAt < now:
		h.add(op{kind: opExpire, r: r}, r.EndAt, now, true)
	case r.State == Releasing:
		h.add(op{kind: opUnlock, r: r}, r.GaveBack, now, true)
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
	till := make(map[*Lease]int64)
	unknown := make(map[*Lease]bool)
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

// Check searches for an order of all calls on each key. Mixed tells of a key whether it is used by
// other than plain exclusive requests, and all are all requests of the run. Check returns how many
// calls it has examined, and for how many keys the search was given up.
func (h *History) Check(now, well Moment, mixed func(key string) bool, all iter.Seq[*Lease]) (calls, undecided uint64) {
	for k := range h.open { // in any order
		h.closeOpen(k, now, well)
	}
	var units []unit
	var taken []porcupine.Operation // the refused TryLocks on mixed keys
	by := make(map[unit][]porcupine.Operation)
	for _, o := range h.ops {
		k := o.Input.(op).r.unit()
		if o.Input.(op).kind == opTaken && mixed(k.key) {
			taken = append(taken, o)
			continue
		}
		if by[k] == nil {
			units = append(units, k)
		}
		by[k] = append(by[k], o)
	}
	h.checkTaken(taken, all)
	for _, k := range units {
		calls += uint64(len(by[k]))
		ops := needed(by[k])
		switch result, info := porcupine.CheckOperationsVerbose(fencedLock, ops, historyPatience); result {
		case porcupine.Ok:
		case porcupine.Unknown:
			undecided++
		default:
			h.Report(RuleHistory, "no order of the %d calls on %q explains their results:%s", len(ops), k.key, firstUnexplained(ops, info))
		}
	}
	return calls, undecided
}

// checkTaken demands a request to which a refused TryLock on a key of several kinds can have lost:
// the request held the key at the time or may have held the key, as far as users can know; for a
// TryLock of a reader or of a permit, a waiting request will do as well. A failed request with a
// delay or a length of its own may have been a lease, from the view of voters that couldn't be told
// of the failure.
func (h *History) checkTaken(taken []porcupine.Operation, all iter.Seq[*Lease]) {
	for _, t := range taken {
		r := t.Input.(op).r
		lostTo := func(o *Lease) bool {
			had := o.Had != 0 || o.State != Failed || o.Delay > 0 || o.MinHold > 0 || o.Length > 0
			if o.Key != r.Key || o == r || int64(o.Asked) > t.Return || r.Mode == vote.Exclusive && !had {
				return false
			}
			end := o.Ended
			if o.State != Released || !o.Confirmed || o.MinHold > 0 {
				end += h.Remembered
			}
			return o.State < Failed || o.State == Releasing || int64(end) >= t.Call
		}
		found := false
		for o := range all {
			if found = lostTo(o); found {
				break
			}
		}
		if !found {
			h.Report(RuleHistory, "%s's TryLock of %q (%v), from %v to %v, is told that it is taken, and no request has it", r.Node, r.Key, r.Mode,
				time.Duration(t.Call), time.Duration(t.Return))
		}
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
