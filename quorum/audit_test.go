package quorum

import "testing"

// The audit demands each request, unless deferred, of every voter with a link, and nothing of the
// other voters: the next sync will list the request.
func TestTheAuditDemandsRequestsOfVotersThatAnswerOnly(t *testing.T) {
	b := newBench(t, 3)
	b.link("v0")
	b.link("v1")
	n := b.lock(false)
	b.pass(maxHedgeDelay)
	r := b.q.requests[n]
	if r.hedging || !r.votes[0].sent || r.votes[2].sent {
		t.Fatalf("deferred: %t, votes %+v", r.hedging, r.votes)
	}
	if err := b.q.Audit(); err != nil {
		t.Errorf("v2 doesn't answer: %v", err)
	}
	r.votes[1].sent = false
	if b.q.Audit() == nil {
		t.Error("v1 answers, was not asked, and the audit finds nothing")
	}
}

// The audit finds a request that has ended and is still in its lease group.
func TestTheAuditDemandsThatOnlyLeasesAreInGroups(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
	r := b.q.requests[n]
	g := r.group
	if err := b.q.Audit(); err != nil || g == nil {
		t.Fatalf("a lease of group %v: %v", g, err)
	}
	b.q.Release(b.now, n)
	if err := b.q.Audit(); err != nil {
		t.Error(err)
	}
	if r.group = g; b.q.Audit() == nil {
		t.Error("a released request is in a lease group, and the audit finds nothing")
	}
}
