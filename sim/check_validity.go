package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
)

// validityCheck demands that a majority is bound to each lease until its end.
type validityCheck struct {
	w     *World
	votes []lease.Vote // what backs examines
}

// residualVote is a vote of a dead process.
type residualVote struct {
	key    *lockKey
	owner  vote.SessionID
	number vote.Number
	mode   vote.Mode
	slot   vote.Slot
	token  vote.Token
	until  Moment
}

// margin returns how much earlier a lease ends than its votes.
func (r *Request) margin() time.Duration {
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

// checkValidity compares a lease with the voters' own records: at the end of the lease, margin
// included, a majority must still be bound to the lease.
func (vc *validityCheck) checkValidity(r *Request) {
	// A voter that steps back forgets its votes, and still keeps their keys from other requests.
	if vc.w.opt.TokensOnly || vc.w.conversion.mayForfeit() {
		return
	}
	if vc.w.opt.Dynamic != nil {
		if !vc.w.dynamic.backedByElectorate(r) {
			vc.w.judge.violate(checkValidity, "%s's lease of %q with token %d lasts for %v, but no majority under any electorate is bound to it for so long:%s", r.Node,
				r.Key, r.Token, r.p.left(vc.w.now, r.end), vc.listBacking(r))
		}
		return
	}
	n := 0
	for _, i := range vc.w.net.route {
		if vc.backs(vc.w.hosts[i], r) {
			n++
		}
	}
	if n < vc.w.quorum {
		vc.w.judge.violate(checkValidity, "%s's lease of %q with token %d lasts for %v, but only %d of %d voters are bound to it for so long:%s", r.Node,
			r.Key, r.Token, r.p.left(vc.w.now, r.end), n, len(vc.w.voters), vc.listBacking(r))
	}
}

// backs reports whether any incarnation of a voter has promised the lease's key to the lease until
// its end. The vote's token may be larger than the lease's token: a confirmation from an earlier
// count of the same tally may have reached the voter since.
func (vc *validityCheck) backs(h *host, r *Request) bool {
	if p := h.p; p != nil && p.m.Voter() != nil {
		vc.votes = p.m.Voter().AppendVotes(vc.votes[:0], r.key.name)
		for _, x := range vc.votes {
			if x.Number == r.Alias && x.Owner == r.p.id && r.isVoted(x.Mode, x.Slot, x.Token) && p.clock.whenSlow(x.Deadline) >= r.until && !vc.isQuiet(p) {
				return true
			}
		}
	}
	for i := range h.residuals {
		if x := &h.residuals[i]; x.key == r.key && x.number == r.Alias && x.owner == r.p.id && r.isVoted(x.mode, x.slot, x.token) && x.until >= r.until {
			return true
		}
	}
	return false
}

// listBacking lists each voter's votes for a lease's key.
func (vc *validityCheck) listBacking(r *Request) string {
	var b strings.Builder
	list := func(incarnation string, owner vote.SessionID, n vote.Number, m vote.Mode, s vote.Slot, t vote.Token, until Moment) {
		fmt.Fprintf(&b, " %s to request %d of %v (%v, slot %d) with token %d until %v;", incarnation, n, owner, m, s, t, time.Duration(until-vc.w.now))
	}
	for _, i := range vc.w.net.route {
		h := vc.w.hosts[i]
		fmt.Fprintf(&b, " %s:", h.name)
		if p := h.p; p != nil && p.m.Voter() != nil {
			for _, x := range p.m.Voter().Votes(r.key.name) {
				list("bound", x.Owner, x.Number, x.Mode, x.Slot, x.Token, p.clock.whenSlow(x.Deadline))
			}
		}
		for _, x := range h.residuals {
			if x.key == r.key {
				list("an earlier incarnation", x.owner, x.number, x.mode, x.slot, x.token, x.until)
			}
		}
	}
	fmt.Fprintf(&b, " the lease, margin included, lasts for %v", time.Duration(r.until-vc.w.now))
	return b.String()
}

// recordResiduals records the votes of a dying voter: they stand until their deadlines, though no
// process remembers them.
func (vc *validityCheck) recordResiduals(p *process) {
	if v := p.m.Voter(); v != nil {
		vc.recordResidualsOf(p, v)
	}
}

// recordResidualsOf records the votes of a process's voter that has ended.
func (vc *validityCheck) recordResidualsOf(p *process, v *lease.Voter) {
	vc.w.fig.ProposalTimeouts += v.Counters().ProposalTimeouts
	kept := p.host.residuals[:0]
	for _, x := range p.host.residuals {
		if x.until > vc.w.now {
			kept = append(kept, x)
		}
	}
	if !vc.isQuiet(p) {
		for _, k := range vc.w.judge.lockKeys {
			for _, x := range v.Votes(k.name) {
				kept = append(kept, residualVote{k, x.Owner, x.Number, x.Mode, x.Slot, x.Token, p.clock.whenSlow(x.Deadline)})
			}
		}
	}
	p.host.residuals = kept
}

// isQuiet reports whether a voter's incarnation is in its startup quarantine by its own slow clock.
// A process with a fresh directory isn't quiet.
func (vc *validityCheck) isQuiet(p *process) bool {
	return !p.fresh && p.clock.slowAt(vc.w.now).Sub(p.started) < p.quiet
}
