package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// history is what users could write down themselves: what they called, when, and what came back. Porcupine (Athalye 2017, after
// Horn and Kroening, "Faster linearizability checking via P-compositionality", 2015) looks for an order of the calls, each at an instant
// between call and return, in which a single fenced lock without nodes, voters or messages gives the same answers. The judge's other
// checks look inside of the mesh; this one knows nothing of it.
//
// Of keys that aren't used by exclusive requests alone, what Porcupine is given are the histories of those leases that exclude each other: of a
// semaphore's each slot is such a lock, and so are the writers of a key with readers. That readers never meet a writer needs no search: it is an
// overlap of intervals, which the check of exclusion finds whenever a lease is granted. Nor does what a TryLock was told there: see taken.
//
// Two things that aren't calls are in it, too. The end of a lease that nobody gave back is an event of its own, at some time after its
// holder stopped believing in it. And a call whose outcome nobody knows, since its process died or gave up, may have had an
// effect or none.
type history struct {
	ops   []porcupine.Operation
	open  map[one][]int         // operations that nobody has confirmed: they have come about before the next grant that they would exclude
	taken []porcupine.Operation // of TryLocks for keys that aren't used by exclusive requests alone
}

// one is what one lease has at a time: a key, or a slot of it.
type one struct {
	key  *lockKey
	slot vote.Slot
}

func (r *Request) one() one { return one{r.key, r.Slot} }

type opKind uint8

const (
	opLock    opKind = iota // returned a token
	opTaken                 // a TryLock to which another's lease was named
	opUnknown               // a lock whose outcome nobody knows
	opUnlock
	opExpire
)

var opNames = [...]string{"lock", "trylock", "lock of unknown outcome", "unlock", "expiry"}

// op is one operation, input and output together.
type op struct {
	kind  opKind
	r     *Request
	token vote.Token
	// excused : a voter had to take tokens from its clock, which stood behind the last one; see protocol.md, "Tokens".
	excused bool
}

func (o op) String() string {
	if o.kind == opLock {
		return fmt.Sprintf("%s by %s's request %d: token %d", opNames[o.kind], o.r.Node, o.r.Number, o.token)
	}
	return fmt.Sprintf("%s by %s's request %d", opNames[o.kind], o.r.Node, o.r.Number)
}

// fenced is the state of one fenced lock.
type fenced struct {
	by   *Request // nil when it is free
	last vote.Token
}

// next returns the states in which an operation may leave a lock; none if it can't have taken place. Which of two states an
// operation of unknown outcome left isn't known either, so Porcupine goes on with both.
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
	case opUnlock, opExpire: // they end their own lease only
		if s.by == o.r {
			s.by = nil
		}
	}
	return []any{s}
}

// fencedLock is what a history is held against: a lock that one request has at a time, each with a token above all before.
var fencedLock = (&porcupine.NondeterministicModel{
	Init:              func() []any { return []any{fenced{}} },
	Step:              func(s, in, _ any) []any { return s.(fenced).next(in.(op)) },
	DescribeOperation: func(in, _ any) string { return in.(op).String() },
}).ToModel()

// add notes an operation. One that nobody has confirmed stays open until its key is granted again.
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

// granted notes a lock that has returned.
func (h *history) granted(w *World, r *Request, excused bool) {
	if h == nil {
		return
	}
	w.closeOpen(r.one())
	if r.Mode == vote.Shared {
		return
	}
	h.add(op{kind: opLock, r: r, token: r.Token, excused: excused}, Moment(r.Asked), w.now, true)
}

// closeOpen says when the operations on a key that nobody has confirmed came about at the latest: by now, and where nothing has been wrong for
// long, before the sessions of those that are gone had ended at all voters.
func (w *World) closeOpen(k one) {
	latest := w.now
	if since := w.wellSince(); since != never {
		latest = min(latest, since.add(2*w.opt.MaxTTL+servedFixed))
	}
	for _, i := range w.hist.open[k] {
		o := &w.hist.ops[i]
		o.Return = max(o.Return, min(int64(w.now), max(int64(latest), o.Call+int64(2*w.opt.MaxTTL+servedFixed))))
	}
	delete(w.hist.open, k)
}

// over notes how a request ended, before its state says so.
func (h *history) over(w *World, r *Request, s State) {
	if h == nil {
		return
	}
	if r.Mode == vote.Shared && s != Failed {
		return
	}
	later := Moment(0)
	if r.Had == 0 && (s == Crashed || s == Released) {
		until := w.now // whoever is dead, or has given up, wins nothing any more
		if r.State == Releasing {
			until = r.gaveBack
		}
		h.add(op{kind: opUnknown, r: r}, Moment(r.Asked), until, true)
		later = 1 // its end comes after what may have been its beginning, if only by a nanosecond
	}
	switch {
	case r.State == Releasing:
		confirmed := s == Released && r.Wait.Reason == quorum.WaitNone && !r.expired
		if r.Had != 0 && r.endAt < r.gaveBack { // by a process that hadn't noticed that it was over
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
	case s == Failed && r.Try && r.Wait.Reason == quorum.WaitHeld && r.p.clock.fastAt(w.now).Sub(r.asked) < r.p.host.ttl:
		// One that has used up its time may have met others that wait, as it did.
		h.add(op{kind: opTaken, r: r}, Moment(r.Asked), w.now, true)
	}
}

// pending notes a call that hasn't returned as the run ends, or a lease that has ended and nobody was told of it yet.
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

// historyPatience bounds the search for an order, which takes milliseconds as a rule and can take for ever. A search that is given up is
// counted, and is no violation: how fast a machine is must not decide what a seed means.
const historyPatience = 2 * time.Second

// needed leaves out locks of unknown outcome, with their ends, that no TryLock overlaps which another's lease was named to. What
// nobody can have seen may always have been without effect, so an order without them is one with them; and each more doubles the search.
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

// checkHistory looks for an order of all that was called on each key.
func (w *World) checkHistory() {
	h := w.hist
	if h == nil || w.opt.TokensOnly {
		return
	}
	for k := range h.open { // in any order
		w.closeOpen(k)
	}
	for _, host := range w.hosts {
		if host.p != nil {
			for n := range host.p.asked {
				if r := host.p.requests[vote.Number(n)]; r != nil {
					h.pending(w, r)
				}
			}
		}
	}
	w.hist.taken = nil
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
	w.checkTaken()
	for _, k := range all {
		w.fig.Calls += uint64(len(by[k]))
		ops := needed(by[k])
		switch result, info := porcupine.CheckOperationsVerbose(fencedLock, ops, historyPatience); result {
		case porcupine.Ok:
		case porcupine.Unknown:
			w.fig.Undecided++
		default:
			w.violate(checkHistory, "no order of the %d calls on %q explains their results:%s", len(ops), k.key.name, firstUnexplained(ops, info))
		}
	}
}

// checkTaken demands that there was somebody to whom a TryLock for a key of several kinds can have lost: who held it then or may have, as
// far as users can know; for a reader's TryLock, or one for a permit, also somebody who waited. To voters that couldn't be told that a request
// with a delay or a length of its own failed it may have been a lease.
func (w *World) checkTaken() {
	linger := 4*w.opt.MaxTTL + servedFixed // for which a voter may know what is over: a session, a delay, and what was on its way
	for _, t := range w.hist.taken {
		r := t.Input.(op).r
		somebody := false
		for _, p := range w.bySession {
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
			w.violate(checkHistory, "%s's TryLock of %q (%v), from %v to %v, is told that it is taken, and nobody has it", r.Node, r.Key, r.Mode,
				time.Duration(t.Call), time.Duration(t.Return))
		}
	}
}

// shared notes that an exclusive lease is one no more.
func (h *history) shared(w *World, r *Request) {
	if h != nil {
		h.add(op{kind: opUnlock, r: r}, w.now, w.now+1, true)
	}
}

// firstUnexplained names the operation at which the longest order that Porcupine could begin ends, with those around it.
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
