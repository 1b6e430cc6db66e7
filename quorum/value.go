package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// sendValueAndRevoke sends a voter the value of a request, and its revoke request to the holder of
// the key. Both follow the request, or the answer to the sync that listed the request.
func (l *requestLayer) sendValueAndRevoke(p *peer, r *request) {
	x := r.cold
	if x == nil {
		return
	}
	if x.version > x.votes[p.place].noted {
		m := l.sendOrdered(p, vote.Digest{}, vote.KindSetValue, r.number)
		m.Version, m.Value = x.version, x.opts.Value
	}
	if x.opts.Revoke && r.state == statePending {
		l.sendOrdered(p, vote.Digest{}, vote.KindRevokeForRequest, r.number).Text = x.opts.Reason
	}
}

// SetValue gives a request or lease a value for other nodes to see, and returns the value's
// version. EventValueSet reports the confirmation by a majority. Zero means that the request is
// over.
func (q *Requester) SetValue(now vote.Now, n vote.Number, value []byte) uint64 {
	q.begin(now)
	r := q.find(n)
	if r == nil || r.state == stateEnding {
		return 0
	}
	return q.setValue(r, value)
}

func (q *Requester) setValue(r *request, value []byte) uint64 {
	was := q.coldOf(r).version
	version, _ := vote.ReadVersion(was)
	version, handOffs := version+1, q.handOffs(r)
	if was >= vote.VersionCounted || handOffs > 0 {
		q.setVersion(r, vote.CountHandOffs(version, handOffs), value)
	} else {
		q.setVersion(r, version, value)
	}
	return version
}

// sendHandOffCount tells the voters how often a lease was handed off, for other nodes to see its
// token. From now on the lease has a version, and isn't handed off.
func (q *Requester) sendHandOffCount(r *request) {
	if r.version() == 0 {
		q.setVersion(r, vote.CountHandOffs(0, q.handOffs(r)), nil)
	}
}

func (l *requestLayer) setVersion(r *request, version uint64, value []byte) {
	x := l.coldOf(r)
	x.opts.Value, x.version = value, version
	for _, p := range l.peers {
		if p.up() && p.answeredAbout(r) && r.votes[p.place].sent {
			l.sendValueAndRevoke(p, r)
		}
	}
}

// noted takes in a voter's confirmation of a value.
func (l *requestLayer) noted(p *peer, r *request, m *vote.Message) {
	if r.cold != nil {
		x := &r.cold.votes[p.place]
		x.noted = max(x.noted, min(m.Version, r.cold.version))
		l.settleNoted(r)
	}
}

// settleNoted reports a value once a majority has confirmed it.
func (l *requestLayer) settleNoted(r *request) {
	x := r.cold
	if x == nil || r.state == stateEnding || x.confirmedVersion >= x.version {
		return
	}
	var all Set
	for i := range x.votes {
		if x.votes[i].noted == x.version {
			all = all.With(i)
		}
	}
	if l.newest.Decides(all) {
		x.confirmedVersion = x.version
		version := x.version
		if version < vote.VersionEnded {
			version, _ = vote.ReadVersion(version)
		}
		if version > 0 { // else the version only says how often the lease was handed off
			l.emit(EventValueSet, r.caller).Version = version
		}
	}
}

// receiveContended takes in a voter's report that another request waits for a lease's key, or a
// revoke request.
func (q *Requester) receiveContended(p *peer, r *request, m *vote.Message) {
	if r.state != stateWon {
		return
	}
	if m.Token == vote.AskHandOffs {
		q.sendHandOffCount(r)
		return
	}
	if m.Token != 0 {
		if m.Token == r.token.First()+q.handOffs(r) {
			e := q.emit(EventEvicted, r.caller)
			e.Who, e.Text = m.Who, m.Text
		}
		return
	}
	if m.Revoke {
		x, v := q.coldOf(r), q.coldVote(r, p.place)
		v.revokes++
		if v.revokes <= x.revokes {
			return // another voter has passed on this revoke request
		}
		x.revokes = v.revokes
	} else if r.contended {
		return
	}
	r.contended = true
	e := q.emit(EventContended, r.caller)
	e.Who, e.Text, e.Revoke = m.Who, m.Text, m.Revoke
}

// Downgrade turns an exclusive lease into a shared lease, at once: readers may share the key as
// soon as the voters hear of the change. Downgrade reports whether there was such a lease.
func (q *Requester) Downgrade(now vote.Now, n vote.Number) bool {
	q.begin(now)
	r := q.find(n)
	if r == nil || r.state != stateWon || r.mode != vote.Exclusive {
		return false
	}
	q.beforeChange(r)
	// The next request in the local queue must be known to the voters; otherwise readers might
	// overtake it without end.
	if q.handOffs(r) > 0 {
		q.sendHandOffCount(r) // the number is forgotten with the queue
	}
	q.leaveLocalQueue(r)
	r.mode = vote.Shared
	if r.cold != nil {
		r.cold.opts.Beside = 0
	}
	for _, p := range q.peers {
		if p.up() && r.votes[p.place].sent {
			q.sendOrdered(p, vote.Digest{}, vote.KindDowngrade, r.number)
		}
	}
	return true
}
