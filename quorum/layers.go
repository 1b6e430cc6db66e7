package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// A requester is made of layers. Each layer embeds the layer below and knows none of the layers
// above, so what a method can reach is told by its receiver:
//
//	Requester     calls from outside, messages from voters, decisions on requests
//	leaseLayer    until when each lease is valid
//	requestLayer  what each voter was told of each request, and has answered
//	sessionLayer  electorates, the session with each voter, the time, what a call brings about
//
// Two parts beside the layers see some of these: a deliverer decides when a request is sent, and a
// querier asks about keys.

// sessionLayer is the part of a requester below its requests, queries and watches, and knows none
// of them: the electorates in use, the session with each voter, the instant of the call under way,
// and what the call brings about.
type sessionLayer struct {
	cfg Config
	now vote.Now
	effects
	electorates
	peerList
	stamps stamps
	meter
}

// requestLayer is the part of a requester that knows what each voter was told of each request, and
// has answered: syncs, votes, values and ends. It knows no lease groups and no local queues, and
// doesn't decide when a request is sent.
type requestLayer struct {
	sessionLayer
	requestTable
}

// leaseLayer is the part of a requester that knows until when each lease is valid.
type leaseLayer struct {
	requestLayer
	leaseGroups
}

// deliverer is the part of a requester that decides to which voters a request is sent, and when: at
// once, or later as a hedge. It is made for a call, and keeps no state of its own.
type deliverer struct {
	*requestLayer
	*hedges
	acks *ackSchedule
}

func (q *Requester) deliverer() deliverer {
	return deliverer{&q.requestLayer, &q.hedges, &q.ackSchedule}
}

// querier is the part of a requester that asks the voters about keys. It knows the sessions, the
// queries, and the requests of this node that the voters don't know, and no more. It is made for a
// call, and keeps no state of its own.
type querier struct {
	*sessionLayer
	*queryTable
	own *localQueues
}

func (q *Requester) querier() querier { return querier{&q.sessionLayer, &q.queryTable, &q.localQueues} }
