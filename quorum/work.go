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
	limit   uint64 // of work, in the Tick under way
	perTick int    // how much work in pieces is done in a Tick; zero means tickBudget
	ticks   int    // so far
}

// Work returns the work done since the requester's creation.
func (w *meter) Work() uint64 { return w.work }

// spend counts work done.
func (w *meter) spend(units int) { w.work += uint64(units) }

// tickBudget is how much work the requester does in a Tick on what it does in pieces. Syncs and
// answers of at most as many requests are made and taken in at once.
const tickBudget = 512

// budget returns the same for this requester.
func (w *meter) budget() int {
	if w.perTick > 0 {
		return w.perTick
	}
	return tickBudget
}

// renewBudget begins the work in pieces of a Tick.
func (w *meter) renewBudget() { w.limit = w.work + uint64(w.budget()) }

// exhausted reports whether work in pieces has to go on in the next Tick.
func (w *meter) exhausted() bool { return w.work >= w.limit }

// Busy reports whether there is work for Tick to continue at once.
func (l *requestLayer) Busy() bool {
	if l.review.next != nil {
		return true
	}
	for _, p := range l.peers {
		if p.syncBuilder != nil || p.answerReader != nil {
			return true
		}
	}
	return false
}

// continueWork continues the work done in pieces. Each Tick begins with another voter.
func (q *Requester) continueWork() {
	q.renewBudget()
	n := len(q.peers)
	for i := range n {
		// A voter may leave the list meanwhile.
		if at := (q.ticks + i) % n; at < len(q.peers) {
			q.continueWith(q.peers[at])
		}
	}
	q.continueReview()
	q.ticks++
}

func (q *Requester) continueWith(p *peer) {
	if p.syncBuilder != nil {
		q.continueSync(p)
	}
	if p.answerReader != nil {
		q.continueAnswer(p)
	}
}
