package lease

// A voter is made of layers. Each layer embeds the layer below and knows none of the layers above,
// so what a method can reach is told by its receiver:
//
//	Voter         messages, timers, tasks, queries: decisions on requests and sessions
//	voteLayer     keys, votes, tokens, and the events of keys for watches
//	sessionLayer  sessions, the electorate, the quiet time, the clock, messages to send

// sessionLayer is the part of a voter below its keys and votes: the sessions of the nodes, the
// electorate, whether the voter counts, the instant of the call under way, and the messages to
// send.
type sessionLayer struct {
	cfg Config
	clock
	outbox
	work
	sessions   sessionTable
	quiet      quiet
	electorate appliedElectorate
	spares     spares
	count      Counters
}

// voteLayer is the part of a voter that knows the keys, the votes and the tokens. It receives no
// message and runs no task.
type voteLayer struct {
	sessionLayer
	keys   keyTable
	votes  voteTable
	tokens knownTokens
	news   news
}
