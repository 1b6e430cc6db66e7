package quorum

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A voter that keeps its memory keeps a minimum hold for the requested time, counted from the
// report of the grant. A voter that restarts forgets the vote, and keeps the key from others by
// staying quiet for the maximum TTL. The quiet time counts from the restart, while the hold counts
// from the grant, and a vote may be as old as a TTL when the request is granted. So a request with
// a minimum hold is granted only once a majority of its votes have been acknowledged so recently
// that even a voter restarting right after its acknowledgement stays quiet until the hold is over.

// isKept reports whether a lease won now, with the votes of a set, is kept from others for its
// minimum hold, whichever voters restart. If not, the sessions get an extra refresh, and the
// acknowledgements cause another evaluation of the request.
//
// The voters of either electorate, the newest or the one before, are enough. A hold acknowledged
// under the earlier electorate is over when the next electorate but one is decided, since the drain
// between them also lasts for the maximum TTL.
func (l *requestLayer) isKept(r *request, set Set) bool {
	hold := r.minHold()
	if hold <= 0 {
		return true
	}
	x := r.cold
	if x.agreed == 0 {
		x.agreed = l.now.Fast
	}
	if r.length() > 0 {
		set = l.extendedOf(r, set)
	}
	// A restarted voter keeps the key for longer than a session lasts.
	until := l.validUntil(set, nil)
	until.newest = until.newest.Add(l.quietBeyond(&l.newest))
	until.before = until.before.Add(l.quietBeyond(&l.before))
	kept := until.last()
	need := l.now.Fast.Add(hold)
	if kept >= need {
		return true
	}
	if most := vote.MaxKept(l.maxTTL()); hold > most {
		// No acknowledgement is recent enough. The node's shell keeps up the missing part of the
		// hold; here this part is made as small as possible.
		need = max(l.now.Fast.Add(most), x.agreed.Add(vote.Validity(l.maxTTL())))
		if kept >= need {
			return true
		}
	}
	l.freshen(set, need.Add(-vote.Validity(l.maxTTL())))
	return false
}

// extendedOf returns the voters of a set whose votes for a request with a length were extended. A
// voter keeps up no minimum hold for a vote that was never extended.
func (l *requestLayer) extendedOf(r *request, set Set) Set {
	for i := range r.votes {
		if set.Has(i) && !(r.votes[i].stands() && r.cold.votes[i].extended) {
			set = set.Without(i)
		}
	}
	return set
}

// freshen refreshes the sessions at the voters of a set, except where a refresh sent since a given
// instant is under way.
func (l *sessionLayer) freshen(set Set, since vote.Instant) {
	for _, p := range l.peers {
		if set.Has(p.place) && p.refreshed < since {
			l.refresh(p)
		}
	}
}

// quietBeyond returns for how much longer a voter that restarts under an electorate is quiet, at
// least, than it has extended the session.
func (l *sessionLayer) quietBeyond(e *Electorate) time.Duration {
	return vote.Validity(l.quietUnder(e)) - vote.Validity(e.granted(l.cfg.TTL))
}

// quietUnder returns how long a voter that restarts under an electorate is quiet, at least.
func (l *sessionLayer) quietUnder(e *Electorate) time.Duration {
	if e.grants > 0 {
		return e.grants
	}
	return max(l.cfg.MaxTTL, l.cfg.TTL)
}

// maxTTL returns how long a restarted voter is quiet, at least.
func (l *sessionLayer) maxTTL() time.Duration {
	least := l.quietUnder(&l.newest)
	if l.before.Known() {
		least = min(least, l.quietUnder(&l.before))
	}
	return least
}
