package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// digestCheck demands that voters and requesters agree on the requests between them.
type digestCheck struct{ w *World }

// checkDigests demands that every acknowledgement's digest of requests and votes matches the
// requester's expected digest. After a mismatch the requester resyncs, so messages lost or
// reordered on an open connection would cost users no more than a refresh and show nowhere else.
func (dc *digestCheck) checkDigests(p *process) {
	if n := p.m.Requester().Counters().Mismatches; n > 0 && !p.forgot && !dc.w.judge.hasDuplicates {
		dc.w.judge.violate(checkDigests, "%d acknowledgements told %s of other requests and votes than it knows of", n, p.host.alias)
	}
}

// receivesForgotten records that a voter refers to a request that ended more than a TTL ago. A
// requester forgets a request by then, whether voters have confirmed its end or not, so the message
// can't enter the requester's expected digest. Such messages are rare and cost a resync: a
// message to one voter may be in flight for seconds, while refreshes pass.
func (p *process) receivesForgotten(now Moment, m *vote.Message) {
	if p.forgot || m.Kind.ToVoter() || m.Kind.Urgent() || m.Number == 0 || int(m.Number) >= len(p.asked) {
		return
	}
	r := p.asked[m.Number]
	if r == nil || r.State == Waiting || r.State == Granted {
		return
	}
	p.forgot = r.released != 0 && p.clock.fastAt(now).Sub(r.released) > min(p.host.ttl, p.host.least)-slack ||
		r.State != Releasing && time.Duration(now)-r.Ended > min(p.host.ttl, p.host.least)*9/10
}
