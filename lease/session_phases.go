package lease

import "fmt"

// nameClaim says whether an incarnation may use its node's name.
//
//	claim                event                                                    next claim
//	claimOwner           (the beginning, if no other incarnation uses the name)
//	claimCandidate       (the beginning otherwise)
//	claimCandidate       the candidate answers a probe                            claimProven
//	claimProven          the candidate opens a stream on another connection       claimCandidate
//	claimProven          no other incarnation answers a probe                     claimOwner
//	claimOwner           another incarnation takes over the name                  claimSuperseded
//	any                  the session is removed                                   claimEnded
type nameClaim uint8

const (
	// claimOwner: the voter knows of no other live incarnation.
	claimOwner nameClaim = iota
	// claimCandidate: the session waits while another incarnation of the name is being probed.
	claimCandidate
	// claimProven: as claimCandidate, and the candidate itself has answered a probe on its
	// connection.
	claimProven
	// claimSuperseded: another incarnation has taken over the name. The votes stand until the
	// deadline, and nothing is extended.
	claimSuperseded
	// claimEnded: the session was removed; see ending.
	claimEnded
)

// nextClaims has the changes of the table above.
var nextClaims = [...][]nameClaim{
	claimOwner:      {claimSuperseded, claimEnded},
	claimCandidate:  {claimProven, claimEnded},
	claimProven:     {claimCandidate, claimOwner, claimEnded},
	claimSuperseded: {claimEnded},
	claimEnded:      nil,
}

// isCandidate reports whether the session waits while another incarnation of its name is being
// probed.
func (c nameClaim) isCandidate() bool { return c == claimCandidate || c == claimProven }

// streamPhase says how far the current stream of a session is. Messages that the voter sends before
// the end of its answer to the stream's sync would be void or sent twice, since the answer contains
// everything.
//
//	phase           event                                                           next phase
//	streamNone      (the beginning, and after each closed or refused connection)
//	any             the node opens a stream                                         streamListing
//	streamListing   the sync is complete                                            streamWaiting
//	streamWaiting   the session owns its name, and no earlier session is left       streamApplying
//	streamWaiting   the node sends another message, which isn't processed           streamMissed
//	streamMissed    the session owns its name, and no earlier session is left       streamVoid
//	streamApplying  the sync is applied                                             streamReady
//	streamApplying  tokens of votes change while the voter answers                  streamVoid
//	streamWaiting   the voter is broken and answers no sync                         streamVoid
//	any             the connection closes, or the session loses its name or ends    streamNone
type streamPhase uint8

const (
	// streamNone: the session has no connection.
	streamNone streamPhase = iota
	// streamListing: chunks of the sync arrive.
	streamListing
	// streamWaiting: the sync is complete. It waits until the session owns its name, and until the
	// cleanup after an earlier session of the same incarnation is finished.
	streamWaiting
	// streamMissed: as streamWaiting, and messages after the sync were not processed.
	streamMissed
	// streamApplying: the voter applies the sync; see applying.
	streamApplying
	// streamReady: the sync is applied and answered.
	streamReady
	// streamVoid: the node has to resync, on a new stream.
	streamVoid
)

// nextPhases has the changes of the table above.
var nextPhases = [...][]streamPhase{
	streamNone:     {streamNone, streamListing},
	streamListing:  {streamNone, streamListing, streamWaiting},
	streamWaiting:  {streamNone, streamListing, streamMissed, streamApplying, streamVoid},
	streamMissed:   {streamNone, streamListing, streamVoid},
	streamApplying: {streamNone, streamListing, streamReady, streamVoid},
	streamReady:    {streamNone, streamListing},
	streamVoid:     {streamNone, streamListing},
}

// become changes the session's claim to its name.
func (s *session) become(next nameClaim) {
	change(&s.claim, next, nextClaims[:])
}

// moveTo changes the phase of the session's stream, and ends the task that applies a sync.
func (s *session) moveTo(next streamPhase) {
	change(&s.phase, next, nextPhases[:])
	s.applying = nil
}

// change changes a state, and panics if the table of changes doesn't have this change: a voter in
// a wrong state might make a second promise.
func change[T ~uint8](state *T, next T, table [][]T) {
	for _, allowed := range table[*state] {
		if allowed == next {
			*state = next
			return
		}
	}
	panic(fmt.Sprintf("lease: a session changes from %T %d to %d", *state, *state, next))
}

// isLinked reports whether the session has a connection.
func (s *session) isLinked() bool { return s.phase != streamNone }

// takesVotes reports whether a vote given now would reach the session's requester: by a push, or by
// the answer to the sync, which begins after requests missing in the sync are dropped.
func (s *session) takesVotes() bool {
	return s.phase == streamReady || s.phase == streamApplying && s.applying.phase > applyDrops
}

// isReachable reports whether a push would reach the session's requester on the current stream: the
// voter has answered the sync.
func (s *session) isReachable() bool {
	return s.phase == streamReady || s.phase == streamApplying && !s.applying.isSilent()
}

// isSynced reports whether the node was sent all results of its sync, so that the digests of voter
// and requester agree.
func (s *session) isSynced() bool {
	return s.phase == streamReady || s.phase == streamApplying && !s.applying.isUnder()
}
