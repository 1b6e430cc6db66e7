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

// Work returns the work done since the requester's creation.
func (q *Requester) Work() uint64 { return q.work }

// toil counts work done.
func (q *Requester) toil(units int) { q.work += uint64(units) }
