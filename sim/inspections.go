package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// inspectedKey is an inspection of a key under way, with the leases that its answer must show.
type inspectedKey struct {
	key  *lockKey
	at   Moment
	held []heldLease // leases held at the start
	late bool        // its process didn't know the newest electorate at the start
}

// heldLease is a lease held when an inspection begins.
type heldLease struct {
	*Request
	noted uint64 // the newest version of its value that a majority had confirmed by then
}

// inspections are a process's inspections under way; nil in worlds without inspections.
type inspections struct {
	rng   *rand.Rand
	under map[uint64]*inspectedKey // by nonce
}

// inspectors has processes inspect keys, and checks the answers.
type inspectors struct{ w *World }

// startInspecting has a process inspect keys now and then, in worlds with Options.InspectEvery. The
// draws come from a random source of their own, but the messages take part in the world like all
// others.
func (ins *inspectors) startInspecting(p *process) {
	if ins.w.opt.InspectEvery == 0 {
		return
	}
	p.inspections = &inspections{rng: rand.New(ins.w.chance("looks", p.host.alias, p.host.starts)), under: make(map[uint64]*inspectedKey)}
	ins.scheduleInspection(p)
}

func (ins *inspectors) scheduleInspection(p *process) {
	ins.w.push(event{at: ins.w.now.Add(fault.Within(p.inspections.rng, 2*ins.w.opt.InspectEvery)) + 1, kind: eventRun, p: p, f: func() {
		ins.Inspect(p, ins.w.judge.lockKeys[p.inspections.rng.IntN(len(ins.w.judge.lockKeys))])
		ins.scheduleInspection(p)
	}})
}

// showable reports whether an inspection has to show a lease: its node holds the lease, and no
// upgrade is under way, which has another number and token.
func (ins *inspectors) showable(r *Request) bool {
	return ins.w.judge.believes(r) && r.base == nil && r.up == nil
}

// Inspect has a process inspect a key.
func (ins *inspectors) Inspect(p *process, k *lockKey) {
	l := &inspectedKey{key: k, at: ins.w.now, late: ins.w.histories.isBehind(p)}
	for _, r := range k.holds {
		if ins.showable(r) {
			l.held = append(l.held, heldLease{r, r.noted})
		}
	}
	p.inspections.under[p.m.Inspect(p.read(ins.w.now), k.name)] = l
	ins.w.note(p.host, "inspects %q", k.name)
	ins.w.settle(p)
}

// unsure demands that an inspection that couldn't be settled shows no held lease as a request that
// only waits.
func (ins *inspectors) unsure(p *process, l *inspectedKey, r *Request, shown *quorum.QueryResult, views func() string) {
	for i, s := range shown.Views {
		if s.Owner == r.p.id && s.Number == r.Alias && !shown.Unsure[i] {
			ins.w.judge.violate(checkSeen, "%s inspects %q since %v, and sees %s's lease #%d, held since %v, as a request that waits for certain:%s",
				p.host.alias, l.key.name, time.Duration(l.at), r.Node, r.Alias, r.Had, views())
		}
	}
}

// value demands that a shown lease has a value no older than the newest value that was confirmed
// before the inspection, and that this is the value of the shown version.
func (ins *inspectors) value(p *process, l *inspectedKey, r heldLease, s *vote.View) {
	if s.Version == 0 && r.noted == 0 {
		return
	}
	ins.w.fig.Values++
	if s.Version < r.noted || s.Version > r.set || !bytes.Equal(s.Value, valueOf(s.Version)) {
		ins.w.judge.violate(checkSeen, "%s inspects %q since %v, and sees %s's lease #%d with value %q of version %d; version %d was confirmed before, and %d is the newest",
			p.host.alias, l.key.name, time.Duration(l.at), r.Node, r.Alias, s.Value, s.Version, r.noted, r.set)
	}
}

// shown demands that the answer to an inspection shows each lease held from the inspection's start
// until now, with its token, and no lease with an end confirmed before the start. If the owner of a
// lease doesn't answer in time, the token may be the first before all hand-offs. Nothing is
// demanded of an inspection that couldn't be settled, nor of a node that doesn't know the newest
// electorate: a majority of this electorate may have confirmed an end unknown to all the voters
// that the node asks.
func (ins *inspectors) shown(p *process, e *quorum.Event) {
	l := p.inspections.under[e.Nonce]
	if l == nil {
		return
	}
	delete(p.inspections.under, e.Nonce)
	if e.Wait.Reason != quorum.WaitNone || ins.w.opt.TokensOnly || ins.w.judge.hasDuplicates || l.late || ins.w.histories.isBehind(p) {
		return
	}
	ins.w.fig.Inspections++
	views := func() string {
		var b strings.Builder
		for _, s := range e.Result.Views {
			fmt.Fprintf(&b, " %s #%d is seen as %d;", s.Owner.Node, s.Number, s.State)
		}
		return b.String()
	}
	for _, r := range l.held {
		if !ins.showable(r.Request) {
			continue
		}
		at := slices.IndexFunc(e.Result.Views, func(s vote.View) bool {
			return s.State == vote.Holding && s.Owner == r.p.id && s.Number == r.Alias
		})
		if at < 0 && !e.Result.Certain {
			ins.unsure(p, l, r.Request, e.Result, views)
			continue
		}
		if at < 0 {
			ins.w.judge.violate(checkSeen, "%s inspects %q since %v, and doesn't see %s's lease #%d of request %d, held since %v:%s", p.host.alias, l.key.name,
				time.Duration(l.at), r.Node, r.Alias, r.Number, r.Had, views())
			continue
		}
		if !e.Result.Certain {
			continue
		}
		ins.value(p, l, r, &e.Result.Views[at])
		is, first := e.Result.Views[at].Token, r.p.runs[r.Alias].First()
		if is != r.Token && (is != first || ins.w.now-l.at < Moment(quorum.HandOffsWait)) {
			ins.w.judge.violate(checkSeen, "%s inspects %q since %v, and sees %s's lease #%d with token %d; it has %d, and %d was its first", p.host.alias, l.key.name,
				time.Duration(l.at), r.Node, r.Alias, is, r.Token, first)
		}
	}
	if !e.Result.Certain {
		ins.w.fig.Unsettled++
		return
	}
	for _, s := range e.Result.Views {
		// A waiting request may be shown until all voters know about its end.
		if s.State != vote.Holding {
			continue
		}
		owner := ins.w.judge.bySession[s.Owner]
		if owner == nil || int(s.Number) >= len(owner.asked) {
			continue
		}
		over := true
		for _, r := range owner.asked[1:] {
			confirmed := r.State == Released && r.Wait.Reason == quorum.WaitNone && !r.Expired && !r.behind && Moment(r.Ended) < l.at
			over = over && (r.Alias != s.Number && r.Number != s.Number || confirmed)
		}
		if over {
			ins.w.judge.violate(checkSeen, "%s inspects %q since %v, and sees %s's request #%d, though its end was confirmed before:%s", p.host.alias, l.key.name,
				time.Duration(l.at), s.Owner.Node, s.Number, views())
		}
	}
}
