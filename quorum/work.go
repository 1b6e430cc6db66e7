package quorum

// A requester counts its work, so that the owner of a node can see how much a step costs and turn
// to urgent inputs in time. The unit is that of lease.Budget: about the time in which a voter
// processes a request, a sixth of a microsecond on a server. BenchmarkResync calibrates the costs
// below. The work is a count and not a time because the requester has no clock of its own, and a
// run must be repeatable.
const (
	// costStated is the cost of listing a request in a sync.
	costStated = 2
	// costRead is the cost of taking in a request's vote from the answer to a sync.
	costRead = 2
	// costEvaluated is the cost of evaluating a request anew.
	costEvaluated = 2
	// costAsked is the cost of a new request, with a message to each voter.
	costAsked = 2
	// costEnded is the cost of ending a request, with a message to each voter.
	costEnded = 2
	// costMerged is the cost of a request in one voter's answer to a query.
	costMerged = 2
	// scanned is how many requests or groups a scan may pass for a unit of work, if each costs a
	// look at a few of its fields.
	scanned = 8
)

// meter counts the work of a requester, and says when work in pieces has to go on in the next Tick.
type meter struct {
	work    uint64 // done since the requester's creation
	limit   uint64 // of the work of the turn under way
	perTurn int    // how much work in pieces is done in a turn; zero means the usual amount
	turns   int    // so far
}

// Work returns the work done since the requester's creation.
func (w *meter) Work() uint64 { return w.work }

// toil counts work done.
func (w *meter) toil(units int) { w.work += uint64(units) }

// turn is how much work the requester does in a Tick on what it does in pieces. Syncs and answers
// of at most as many requests are made and taken in at once.
const turn = 512

// turn returns the same for this requester.
func (w *meter) turn() int {
	if w.perTurn > 0 {
		return w.perTurn
	}
	return turn
}

// beginTurn begins a turn of work in pieces.
func (w *meter) beginTurn() { w.limit = w.work + uint64(w.turn()) }

// tired reports whether work in pieces has to go on in the next Tick.
func (w *meter) tired() bool { return w.work >= w.limit }

// Busy reports whether there is work for Tick to continue at once.
func (q *Requester) Busy() bool {
	if q.review.next != nil {
		return true
	}
	for _, p := range q.peers {
		if p.making != nil || p.reading != nil {
			return true
		}
	}
	return false
}

// goOn continues the work done in pieces. Each Tick begins with another voter.
func (q *Requester) goOn() {
	q.beginTurn()
	n := len(q.peers)
	for i := range n {
		// A voter may leave the list meanwhile.
		if at := (q.turns + i) % n; at < len(q.peers) {
			q.goOnWith(q.peers[at])
		}
	}
	q.goOnReviewing()
	q.turns++
}

func (q *Requester) goOnWith(p *peer) {
	if p.making != nil {
		q.goOnMaking(p)
	}
	if p.reading != nil {
		q.goOnReading(p)
	}
}
