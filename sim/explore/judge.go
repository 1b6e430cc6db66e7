package explore

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// judge checks whether the leases held in the clients' belief can be held at once.
func (x *explorer) judge(s *state) string {
	now := x.now(0, s.tick).Fast
	for k := range x.o.Keys {
		var held [maxClients]*claim
		n := 0
		for c := range x.clients {
			if u := &x.locals.all[s.nodes[x.node(c)]].users[k]; u.state == holding && now < u.until {
				held[c] = &u.claim
				n++
			}
		}
		if wrong := x.exclusive(k, n, &held); wrong != "" {
			return wrong
		}
		for c := range x.clients {
			if held[c] == nil || !x.o.Validity {
				continue
			}
			if wrong := x.checkValidity(s, k, c, held[c]); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// exclusive checks a key's holders against each other.
func (x *explorer) exclusive(k, n int, held *[maxClients]*claim) string {
	for c, f := range held {
		if f == nil {
			continue
		}
		if f.mode == vote.Permit && n > x.o.Permits {
			return fmt.Sprintf("permits: %d clients hold the %d of %s", n, x.o.Permits, keyNames[k])
		}
		if slots := int(f.slot); f.mode == vote.Permit && slots == 0 || slots > x.o.Permits {
			return fmt.Sprintf("permits: %s holds slot %d of %d of %s", x.names[x.node(c)], slots, x.o.Permits, keyNames[k])
		}
		for d, g := range held[:c] {
			switch {
			case g == nil || f.mode == vote.Shared && g.mode == vote.Shared:
			case f.mode == vote.Exclusive && g.mode == vote.Exclusive:
				return fmt.Sprintf("exclusion: two clients hold %s", keyNames[k])
			case f.mode != g.mode:
				return fmt.Sprintf("exclusion: %s holds %s (%v) beside %s (%v)", x.names[x.node(c)], keyNames[k], f.mode, x.names[x.node(d)], g.mode)
			case f.slot == g.slot:
				return fmt.Sprintf("permits: two clients hold slot %d of %s", f.slot, keyNames[k])
			}
		}
	}
	return ""
}

// backingVote is a voter's vote, as the judge sees it.
type backingVote struct {
	owner  vote.SessionID
	number vote.Number
	mode   vote.Mode
	slot   vote.Slot
	until  vote.Instant
}

// recordVotes records a voter's promises.
func (x *explorer) recordVotes(h *host, l *local) {
	v := h.m.Voter()
	if !x.o.Validity || v == nil {
		return
	}
	if q := v.Quiet(); q > 0 {
		l.quiet = x.now(0, l.after.on.tick).Slow.Add(q)
	}
	for k := range x.o.Keys {
		for _, b := range v.Votes(keyNames[k]) {
			l.votes[k] = append(l.votes[k], backingVote{b.Owner, b.Number, b.Mode, b.Slot, b.Deadline})
		}
	}
}

// checkValidity checks that a majority of the voters backs a lease for as long as its holder
// believes in the lease: each of these voters has a vote for the lease until then, or is down, or
// is in its startup quarantine for longer. All clocks show the same time here.
func (x *explorer) checkValidity(s *state, k, c int, held *claim) string {
	n := x.node(c)
	owner := x.session(uint8(n), s.incarnations[n])
	backing := 0
	for v := range x.o.Voters {
		l := &x.locals.all[s.nodes[v]]
		if s.nodes[v] == 0 || l.quiet >= held.until || l.backs(k, owner, held) {
			backing++
		}
	}
	if backing <= x.o.Voters/2 {
		return fmt.Sprintf("validity: %s believes that it holds %s, and %d of %d voters stand by that", x.names[n], keyNames[k], backing, x.o.Voters)
	}
	return ""
}

func (l *local) backs(k int, owner vote.SessionID, held *claim) bool {
	for _, b := range l.votes[k] {
		if b.owner == owner && b.number == held.number && b.slot == held.slot && b.until >= held.until &&
			(b.mode == held.mode || b.mode == vote.Exclusive && held.mode == vote.Shared) {
			return true
		}
	}
	return false
}
