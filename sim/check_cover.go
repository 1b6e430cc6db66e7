package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
)

// coverCheck demands that a majority is bound to each lease until its end.
type coverCheck struct {
	w     *World
	votes []lease.Vote // what binds examines
}

// will is a vote of a dead process.
type will struct {
	key    *lockKey
	owner  vote.SessionID
	number vote.Number
	mode   vote.Mode
	slot   vote.Slot
	token  vote.Token
	until  Moment
}

// guard returns how much earlier a lease ends than its votes.
func (r *Request) guard() time.Duration {
	if r.Ask.Length > 0 {
		return vote.Margin(min(r.Ask.Length, r.p.host.least))
	}
	return vote.Margin(min(r.p.host.ttl, r.p.host.least))
}

// isVoted reports whether a vote with the given mode, slot and token is for the lease r.
func (r *Request) isVoted(m vote.Mode, s vote.Slot, t vote.Token) bool {
	// An exclusive vote may be for a shared lease: voters learn late of a downgrade.
	return s == r.Slot && t >= r.Last && (m == r.Mode || m == vote.Exclusive && r.Mode == vote.Shared)
}

// checkCover compares a lease with the voters' own records: at the end of the lease, guard
// included, a majority must still be bound to the lease.
func (cc *coverCheck) checkCover(r *Request) {
	// A voter that steps back forgets its votes, and still keeps their keys from other requests.
	if cc.w.opt.TokensOnly || cc.w.conversion.mayForfeit() {
		return
	}
	if cc.w.opt.Dynamic != nil {
		if !cc.w.dynamic.coveredDynamic(r) {
			cc.w.judge.violate(checkCover, "%s's lease of %q with token %d lasts for %v, but no majority under any electorate is bound to it for so long:%s", r.Node,
				r.Key, r.Token, r.p.left(cc.w.now, r.end), cc.bonds(r))
		}
		return
	}
	n := 0
	for _, i := range cc.w.net.route {
		if cc.binds(cc.w.hosts[i], r) {
			n++
		}
	}
	if n < cc.w.quorum {
		cc.w.judge.violate(checkCover, "%s's lease of %q with token %d lasts for %v, but only %d of %d voters are bound to it for so long:%s", r.Node,
			r.Key, r.Token, r.p.left(cc.w.now, r.end), n, len(cc.w.voters), cc.bonds(r))
	}
}

// binds reports whether any incarnation of a voter has promised the lease's key to the lease until
// its end. The vote's token may be larger than the lease's token: a confirmation from an earlier
// count of the same tally may have reached the voter since.
func (cc *coverCheck) binds(h *host, r *Request) bool {
	if p := h.p; p != nil && p.m.Voter() != nil {
		cc.votes = p.m.Voter().AppendVotes(cc.votes[:0], r.key.name)
		for _, x := range cc.votes {
			if x.Number == r.Alias && x.Owner == r.p.id && r.isVoted(x.Mode, x.Slot, x.Token) && p.clock.whenSlow(x.Deadline) >= r.until && !cc.isQuiet(p) {
				return true
			}
		}
	}
	for i := range h.wills {
		if x := &h.wills[i]; x.key == r.key && x.number == r.Alias && x.owner == r.p.id && r.isVoted(x.mode, x.slot, x.token) && x.until >= r.until {
			return true
		}
	}
	return false
}

// bonds lists each voter's votes for a lease's key.
func (cc *coverCheck) bonds(r *Request) string {
	var b strings.Builder
	tell := func(incarnation string, owner vote.SessionID, n vote.Number, m vote.Mode, s vote.Slot, t vote.Token, until Moment) {
		fmt.Fprintf(&b, " %s to request %d of %v (%v, slot %d) with token %d until %v;", incarnation, n, owner, m, s, t, time.Duration(until-cc.w.now))
	}
	for _, i := range cc.w.net.route {
		h := cc.w.hosts[i]
		fmt.Fprintf(&b, " %s:", h.name)
		if p := h.p; p != nil && p.m.Voter() != nil {
			for _, x := range p.m.Voter().Votes(r.key.name) {
				tell("bound", x.Owner, x.Number, x.Mode, x.Slot, x.Token, p.clock.whenSlow(x.Deadline))
			}
		}
		for _, x := range h.wills {
			if x.key == r.key {
				tell("an earlier incarnation", x.owner, x.number, x.mode, x.slot, x.token, x.until)
			}
		}
	}
	fmt.Fprintf(&b, " the lease, guard included, lasts for %v", time.Duration(r.until-cc.w.now))
	return b.String()
}

// bequeath records the votes of a dying voter: they stand until their deadlines, though no process
// remembers them.
func (cc *coverCheck) bequeath(p *process) {
	if v := p.m.Voter(); v != nil {
		cc.bequeathOf(p, v)
	}
}

// bequeathOf records the votes of a process's voter that has ended.
func (cc *coverCheck) bequeathOf(p *process, v *lease.Voter) {
	cc.w.fig.ProposalTimeouts += v.Counters().ProposalTimeouts
	kept := p.host.wills[:0]
	for _, x := range p.host.wills {
		if x.until > cc.w.now {
			kept = append(kept, x)
		}
	}
	if !cc.isQuiet(p) {
		for _, k := range cc.w.judge.lockKeys {
			for _, x := range v.Votes(k.name) {
				kept = append(kept, will{k, x.Owner, x.Number, x.Mode, x.Slot, x.Token, p.clock.whenSlow(x.Deadline)})
			}
		}
	}
	p.host.wills = kept
}

// isQuiet reports whether a voter's incarnation is in its startup quarantine by its own slow clock.
// A process with a fresh directory isn't quiet.
func (cc *coverCheck) isQuiet(p *process) bool {
	return !p.fresh && p.clock.slowAt(cc.w.now).Sub(p.started) < p.quiet
}
