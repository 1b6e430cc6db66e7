package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/watchmerge"
	"github.com/lockmesh/lockmesh/quorum"
)

// watching is a process's watch over all keys, with the events reported by the watch.
type watching struct {
	nonce   uint64
	merger  *watchmerge.Merger
	queries map[uint64]*watchmerge.Doubt // queries by nonce: a key in doubt, or nil for all keys
	armed   bool                         // a query for keys in doubt is scheduled
	asked   bool                         // a query was sent since the node was last drained
	synced  Moment                       // when the watch was first in sync; zero: not yet
	gaps    int                          // gaps reported since then
	gap     bool                         // the watch has a gap now
	held    map[leaseID]watchmerge.Event
	// lastKind has the kind of the last event of each lease.
	lastKind map[leaseID]watchmerge.Kind
	news     []watchmerge.Event
	// from belongs to the newest query for all keys: the state of a watch that rests on the query
	// must show each lease held since the query began.
	from watchedFrom
	// basis is the same of the query on which the reports of this moment rest, if its answer is
	// certain.
	basis *watchedFrom
}

// watchedFrom is what the state of a watch has to show.
type watchedFrom struct {
	held []*Request // leases held when the query began
	late bool       // the process didn't know the newest electorate then
}

// watchers has processes watch all keys, and checks what the watches report.
type watchers struct{ w *World }

// leaseID identifies a lease as voters do.
type leaseID struct {
	owner vote.SessionID
	alias vote.Number
}

// startWatching has a process watch all keys, in worlds with Options.Watches.
func (ws *watchers) startWatching(p *process) {
	if !ws.w.opt.Watches {
		return
	}
	p.watch = &watching{
		merger: watchmerge.New(p.m.Requester().Electorate()), queries: make(map[uint64]*watchmerge.Doubt),
		held: make(map[leaseID]watchmerge.Event), lastKind: make(map[leaseID]watchmerge.Kind),
	}
	p.watch.nonce = p.m.Watch(p.read(ws.w.now), "", true)
	ws.w.settle(p)
}

// watched passes an event of a process's node to the process's watch merger, as a node's
// shell does.
func (ws *watchers) watched(p *process, e *quorum.Event) {
	x, wall := p.watch, p.read(ws.w.now).Wall
	switch e.Kind {
	case quorum.EventNews:
		if e.Nonce != x.nonce {
			return
		}
		x.merger.AddReports(wall, e.Place, e.Gap, e.Views, e.AsOf)
	case quorum.EventElectorate:
		x.merger.Reconfigure(e.Electorate, e.Places)
	case quorum.EventQueryDone:
		l, ok := x.queries[e.Nonce]
		if !ok {
			return
		}
		delete(x.queries, e.Nonce)
		if l != nil {
			x.merger.AddKeyResult(wall, *l, e.Result)
		} else {
			x.merger.AddResult(wall, e.Result)
			if e.Result != nil && e.Result.Certain {
				from := x.from
				x.basis = &from
			}
		}
	}
	ws.followMerger(p)
	x.basis = nil
}

func (ws *watchers) followMerger(p *process) {
	x := p.watch
	if x.merger.WantsRestart() {
		p.m.Unwatch(p.read(ws.w.now), x.nonce)
		x.nonce = p.m.Watch(p.read(ws.w.now), "", true)
		maps.DeleteFunc(x.queries, func(_ uint64, d *watchmerge.Doubt) bool { return d == nil })
	}
	if x.merger.WantsQuery() {
		x.queries[p.m.InspectForWatch(p.read(ws.w.now), "", true)] = nil
		x.asked = true
		x.from = watchedFrom{late: ws.w.histories.isBehind(p)}
		for _, k := range ws.w.judge.lockKeys {
			for _, r := range k.holds {
				if ws.w.inspectors.showable(r) {
					x.from.held = append(x.from.held, r)
				}
			}
		}
	}
	if x.merger.InDoubt() && !x.armed {
		x.armed = true
		ws.w.push(event{at: ws.w.now.Add(watchmerge.DoubtPause), kind: eventRun, p: p, f: func() {
			x.armed = false
			now := p.read(ws.w.now)
			for _, d := range x.merger.Doubts(now.Wall, 4) {
				x.queries[p.m.Query(now, d.Key)] = &d
			}
			ws.followMerger(p)
			ws.w.settle(p)
		}})
	}
	x.news = x.merger.Drain(x.news[:0])
	for i := range x.news {
		ws.checkEvent(p, &x.news[i])
	}
}

// checkEvent checks an event of a watch against the world. A reported lease must have been granted
// with the reported token, and must not exclude another reported lease. Its end must not be
// reported before its node considers the lease over.
func (ws *watchers) checkEvent(p *process, e *watchmerge.Event) {
	x, s := p.watch, &e.View
	id := leaseID{s.Owner, s.Number}
	switch e.Kind {
	case watchmerge.Gap:
		ws.w.note(p.host, "reports a gap")
		clear(x.held)
		x.gap = true
		if x.synced != 0 {
			x.gaps++
			ws.w.fig.WatchGaps++
		}
		return
	case watchmerge.Synced:
		x.gap = false
		ws.checkState(p)
		if x.synced == 0 {
			x.synced = ws.w.now
		}
		return
	case watchmerge.Waiting, watchmerge.Confirmed:
		return
	}
	ws.w.fig.WatchEvents++
	ws.w.note(p.host, "reports %d of %q, %v #%d with token %d", e.Kind, s.Key, s.Owner, s.Number, s.Token)
	owner := ws.w.judge.bySession[s.Owner]
	if owner == nil {
		return
	}
	violate := func(format string, args ...any) {
		if !ws.w.opt.TokensOnly && !ws.w.judge.hasDuplicates {
			ws.w.judge.violate(checkWatch, format, args...)
		}
	}
	held, granted, givenBack := ws.leaseOf(owner, s.Number)
	switch e.Kind {
	case watchmerge.Granted, watchmerge.Changed:
		if !granted {
			violate("%s reports %s's lease #%d of %q, which was never granted", p.host.alias, s.Owner.Node, s.Number, s.Key)
		} else if want := owner.runs[s.Number].First(); s.Token != want {
			violate("%s reports %s's lease #%d of %q with token %d; it has %d", p.host.alias, s.Owner.Node, s.Number, s.Key, s.Token, want)
		}
		for o, h := range x.held { // in any order
			switch {
			case o == id, e.Previous != 0 && o.owner == s.Owner && h.View.Key == s.Key && h.View.Token == e.Previous:
				delete(x.held, o)
			case h.View.Key == s.Key && (h.View.Mode != s.Mode || s.Mode == vote.Exclusive || s.Mode == vote.Permit && s.Slot == h.View.Slot):
				violate("%s reports %s's lease #%d of %q while %s's #%d is held", p.host.alias, s.Owner.Node, s.Number, s.Key, o.owner.Node, o.alias)
			}
		}
		x.held[id] = *e
	case watchmerge.Released, watchmerge.Lost:
		if _, ok := x.held[id]; !ok && !x.gap {
			violate("%s reports the end of %s's lease #%d of %q, and reported no grant", p.host.alias, s.Owner.Node, s.Number, s.Key)
		}
		delete(x.held, id)
		if held && !ws.w.conversion.mayForfeit() && !ws.w.histories.isBehind(p) {
			violate("%s reports the end of %s's lease #%d of %q (%d), and its node holds it", p.host.alias, s.Owner.Node, s.Number, s.Key, e.Kind)
		}
		if e.Kind == watchmerge.Lost && givenBack {
			ws.w.fig.WronglyLost++
		}
	}
	x.lastKind[id] = e.Kind
}

// checkState demands that the state of a watch shows each lease held from before the query on which
// the state rests until now.
func (ws *watchers) checkState(p *process) {
	x := p.watch
	if x.basis == nil || x.basis.late || ws.w.histories.isBehind(p) || ws.w.opt.TokensOnly || ws.w.judge.hasDuplicates {
		return
	}
	ws.w.fig.WatchStates++
	for _, r := range x.basis.held {
		if !ws.w.inspectors.showable(r) {
			continue
		}
		ws.w.fig.WatchedFrom++
		if _, ok := x.held[leaseID{r.p.id, r.Alias}]; !ok {
			ws.w.judge.violate(checkWatch, "%s's watch is synced, and doesn't show %s's lease #%d of %q, held since %v", p.host.alias, r.Node, r.Alias, r.Key, r.Had)
		}
	}
}

// leaseOf finds a lease by its alias, the number under which voters know the lease. held and
// granted say whether its node holds the lease now and ever held the lease; givenBack says whether
// the lease was given back in time.
func (ws *watchers) leaseOf(p *process, alias vote.Number) (held, granted, givenBack bool) {
	for _, r := range p.asked[1:] {
		if r.Had != 0 && r.Alias == alias {
			granted = true
			held = held || ws.w.judge.believes(r)
			givenBack = (r.State == Released || r.State == Releasing) && !r.Expired
		}
	}
	return held, granted, givenBack
}

// checkWatches demands, once the faults are over and no lease is held, that every watch reports
// this state. A watch without a gap must also have reported each lease that came and went
// undisturbed meanwhile.
func (ws *watchers) checkWatches() {
	if ws.w.judge.hasDuplicates || ws.w.opt.TokensOnly {
		return
	}
	for _, h := range ws.w.hosts {
		if h.p == nil || h.p.watch == nil {
			continue
		}
		x := h.p.watch
		if x.synced == 0 || x.gap || x.merger.InDoubt() || len(x.held) > 0 {
			ws.w.judge.violate(checkWatch, "when all is over, %s's watch has a gap (%t) or a doubt (%t), or shows leases as held:%s", h.alias, x.gap || x.synced == 0,
				x.merger.InDoubt(), x.stillHeld())
			return
		}
		if x.gaps > 0 {
			continue
		}
		ws.w.fig.WholeWatches++
		owners := slices.SortedFunc(maps.Values(ws.w.judge.bySession), func(a, b *process) int { return strings.Compare(a.id.String(), b.id.String()) })
		for _, p := range owners {
			for _, r := range p.asked[1:] {
				ended := r.State == Released && r.Wait.Reason == quorum.WaitNone && !r.Expired && !r.behind
				if !ended || Moment(r.Had) <= x.synced || r.HandedOff() || !ws.w.order.isFaultFree(Moment(r.Had), Moment(r.Ended)) {
					// A watch may miss a lease if the lease's node wasn't in touch with a majority.
					continue
				}
				ws.w.fig.WatchedWhole++
				k := x.lastKind[leaseID{p.id, r.Alias}]
				if k == 0 {
					ws.w.judge.violate(checkWatch, "%s's watch has reported no gap, and nothing about %s's lease #%d of %q, held from %v to %v", h.alias, r.Node, r.Alias, r.Key, r.Had, r.Ended)
					return
				}
				// The release is confirmed within a TTL, or else the voters see the lease end by
				// itself.
				if k == watchmerge.Lost && ws.w.order.isFaultFree(Moment(r.Had), Moment(r.Ended).Add(ws.w.opt.MaxTTL)) {
					ws.w.judge.violate(checkWatch, "%s's watch has reported %s's lease #%d of %q as lost, held from %v to %v and given back", h.alias, r.Node, r.Alias, r.Key, r.Had, r.Ended)
					return
				}
			}
		}
	}
}

// stillHeld lists the leases that a watch considers held.
func (x *watching) stillHeld() string {
	var all []string
	for id := range x.held { // in any order
		all = append(all, fmt.Sprintf(" %v #%d", id.owner, id.alias))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
