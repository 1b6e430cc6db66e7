package quorum

// Open returns how many requests are under way, held leases and unconfirmed releases included.
func (q *Requester) Open() int { return len(q.requests) }
