package admin

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Access is what the sender of a request may do. Any client may ask.
type Access struct {
	// Read says that the sender may see the node, the voters and the keys.
	Read bool `json:"read"`
	// Act says that the sender may revoke, evict, drain, stop and leave.
	Act bool `json:"act"`
	// Lock says that the sender may take locks.
	Lock bool `json:"lock"`
	// Recover says that the sender may name new voters, when a majority is lost for good.
	Recover bool `json:"recover"`
	// Token says that the sender may do more with the handler's token.
	Token bool `json:"token"`
	// Reason says why the sender may not read, or not act; empty for a sender that may do both.
	Reason string `json:"reason"`
}

// Status is a node's view of the mesh, see [lockmesh.Status].
type Status struct {
	// At is the time of the answer, by the node's machine.
	At time.Time `json:"at"`
	// Name is the node's name.
	Name string `json:"name"`
	// Incarnation identifies this start of the node: a hexadecimal number drawn at random.
	Incarnation string `json:"incarnation"`
	// Addr is the address at which other nodes reach the node, host:port.
	Addr string `json:"addr"`
	// Closed says that the node has ended. Only Name, Incarnation, Addr, Handshakes, Secrets and
	// Members are meaningful then.
	Closed bool `json:"closed"`
	// Draining says that the node takes no more locks.
	Draining bool `json:"draining"`
	// TTLMS is the length in milliseconds of a lease of this node, unless a request gives another
	// length.
	TTLMS int64 `json:"ttl_ms"`
	// Electorate describes the voters.
	Electorate Electorate `json:"electorate"`
	// Members are the nodes known to gossip, by name.
	Members []Member `json:"members"`
	// Refused are live nodes of the mesh with another configuration, by name.
	Refused []RefusedPeer `json:"refused"`
	// Held are the leases held by this node, by key.
	Held []HeldLease `json:"held"`
	// Waiting are the requests of this node not granted yet, the longest wait first.
	Waiting []Request `json:"waiting"`
	// Handshakes counts the unauthenticated connections to the node's port.
	Handshakes Handshakes `json:"handshakes"`
	// Secrets are the secrets in use in the mesh, by id. They are told apart, never shown.
	Secrets []SecretUse `json:"secrets"`
}

// Members are the nodes known to gossip.
type Members struct {
	// Members are the nodes, by name.
	Members []Member `json:"members"`
}

// Member is a node as seen by gossip, see [lockmesh.MemberStatus].
type Member struct {
	// Name is the node's name.
	Name string `json:"name"`
	// Addr is the node's address, host:port.
	Addr string `json:"addr"`
	// State is "alive", "failed" or "left".
	State string `json:"state"`
	// Incarnation identifies the node's start, in hexadecimal; empty if unknown.
	Incarnation string `json:"incarnation"`
}

// Electorate is the electorate as seen by a node, see [lockmesh.ElectorateStatus].
type Electorate struct {
	// Voters are all voters, by name.
	Voters []Voter `json:"voters"`
	// Majority is the number of voters needed for a decision.
	Majority int `json:"majority"`
	// Counting is the number of voters that answer the node and count.
	Counting int `json:"counting"`
	// Ready says that locks can be granted.
	Ready bool `json:"ready"`
	// Spare is the number of counting voters that may fail, whichever they are, with a majority
	// left.
	Spare int `json:"spare"`
	// Dynamic says that membership is dynamic. Otherwise the fields below are empty.
	Dynamic bool `json:"dynamic"`
	// FromFixed says that the node is being converted from fixed voters.
	FromFixed bool `json:"from_fixed"`
	// Version is the number of the electorate, from 1; zero while the node knows of none.
	Version uint64 `json:"version"`
	// Joint says that the electorate is being changed.
	Joint bool `json:"joint"`
	// Old are the voters before the change, while Joint.
	Old []string `json:"old"`
	// New are the voters after the change, while Joint.
	New []string `json:"new"`
	// Voter says that the node itself is a voter.
	Voter bool `json:"voter"`
	// Standby are the nodes on standby, by name.
	Standby []string `json:"standby"`
	// Change says which nodes are being voted in or out, and why the change waits.
	Change string `json:"change"`
	// Trouble says why the node can't take part in changes.
	Trouble string `json:"trouble"`
	// Lost says why there may never be a majority again, and what an operator must do.
	Lost string `json:"lost"`
	// MaxVoters is the maximum number of voters, as decided by the voters; zero before.
	MaxVoters int `json:"max_voters"`
	// MaxTTLMS is the maximum TTL in milliseconds, as decided by the voters; zero before.
	MaxTTLMS int64 `json:"max_ttl_ms"`
	// Expect is the number of processes that found the mesh; zero without Expect.
	Expect int `json:"expect"`
	// StateDir is the node's state directory.
	StateDir string `json:"state_dir"`
	// DirID is the identity of the directory, in hexadecimal; with Expect, of the process.
	DirID string `json:"dir_id"`
	// StoredVersion is the version in the directory.
	StoredVersion uint64 `json:"stored_version"`
}

// Voter is a voter as seen by a node, see [lockmesh.VoterStatus].
type Voter struct {
	// Name is the voter's name.
	Name string `json:"name"`
	// State is one of the states of [lockmesh.VoterState], such as "reachable" or "quiet".
	State string `json:"state"`
	// QuietMS is for how many milliseconds a quiet voter still won't count, at least.
	QuietMS int64 `json:"quiet_ms"`
	// Text describes the state and its reason.
	Text string `json:"text"`
	// Drift says how far the voter's clock is off; empty as long as all is well.
	Drift string `json:"drift"`
	// RoundTripUS is the time to the voter and back in microseconds, smoothed; zero while unknown.
	RoundTripUS int64 `json:"round_trip_us"`
	// ClockOffsetUS is by how many microseconds the voter's wall clock is ahead of the node's, to
	// within half a round trip; zero while unknown. No lock depends on the wall clocks.
	ClockOffsetUS int64 `json:"clock_offset_us"`
	// ClockRatePPM is how much faster the voter's clock runs than the node's, in parts per million;
	// zero while unknown. See [lockmesh.VoterStatus].
	ClockRatePPM int64 `json:"clock_rate_ppm"`
}

// RefusedPeer is a live node not admitted by this node, see [lockmesh.RefusedPeer].
type RefusedPeer struct {
	// Name is the node's name.
	Name string `json:"name"`
	// Addr is the node's address, host:port.
	Addr string `json:"addr"`
	// Incarnation identifies the node's start, in hexadecimal.
	Incarnation string `json:"incarnation"`
	// Reason names each value that differs, with both values.
	Reason string `json:"reason"`
	// Seen is when the node was last met.
	Seen time.Time `json:"seen"`
}

// HeldLease is a lease held by this node, for the application itself or for a client.
type HeldLease struct {
	// Key is the name of the lock.
	Key string `json:"key"`
	// Token is the fencing token.
	Token uint64 `json:"token"`
	// Deadline is when the lease ends unless it is renewed before.
	Deadline time.Time `json:"deadline"`
	// LeftMS is the time until Deadline in milliseconds.
	LeftMS int64 `json:"left_ms"`
}

// Request is a request of this node that waits.
type Request struct {
	// Key is the name of the lock.
	Key string `json:"key"`
	// Since is the time of the request.
	Since time.Time `json:"since"`
	// Text says why the request waits.
	Text string `json:"text"`
}

// Handshakes counts connections to a node's port, see [lockmesh.HandshakeStatus]. All fields but
// Open count up since the start.
type Handshakes struct {
	// Open is the number of connections with an unfinished handshake now.
	Open int `json:"open"`
	// Silent counts connections closed because their first message didn't arrive.
	Silent uint64 `json:"silent"`
	// Unfinished counts connections closed because their handshake didn't end.
	Unfinished uint64 `json:"unfinished"`
	// Displaced counts connections closed to make room for newer connections.
	Displaced uint64 `json:"displaced"`
	// Compressed counts packets and streams of gossip refused because they were compressed.
	Compressed uint64 `json:"compressed"`
}

// SecretUse tells which nodes use a secret, see [lockmesh.SecretStatus].
type SecretUse struct {
	// ID tells secrets apart. It is no secret, and tells nothing about a random one; but guesses
	// can be tested by the id, so ID is empty for a reader without the token (AllowReads).
	ID string `json:"id"`
	// AcceptedBy are the live nodes that accept the secret, by name.
	AcceptedBy []string `json:"accepted_by"`
	// SentBy are the live nodes that send the secret, by name.
	SentBy []string `json:"sent_by"`
}

// Locks is a page of keys, see [lockmesh.Page].
type Locks struct {
	// Locks are the keys in use, by name. A page may be empty although more follow.
	Locks []Lock `json:"locks"`
	// Next is the parameter after of the next page; empty on the last page.
	Next string `json:"next"`
}

// Lock is the state of a key, see [lockmesh.Info].
type Lock struct {
	// Key is the name of the lock.
	Key string `json:"key"`
	// Permits is the number of permits of a semaphore; zero for other keys.
	Permits int `json:"permits"`
	// Holders are the leases, by token.
	Holders []Holder `json:"holders"`
	// Waiters are the waiting requests, about in the order in which they will get the key.
	Waiters []Waiter `json:"waiters"`
	// MoreHolders is the number of leases left out of Holders: in [Error].Lock beyond 16.
	MoreHolders int `json:"more_holders,omitempty"`
	// MoreWaiters is the number of requests left out of Waiters: in [Error].Lock beyond 16.
	MoreWaiters int `json:"more_waiters,omitempty"`
	// DelayedMS is for how many milliseconds the key is still kept from all nodes without a holder.
	DelayedMS int64 `json:"delayed_ms"`
}

// Holder is a lease as seen by the voters, see [lockmesh.Holder].
type Holder struct {
	// Node is the holder's node.
	Node string `json:"node"`
	// Token is the lease's first token.
	Token uint64 `json:"token"`
	// Mode is "exclusive", "shared" or "permit".
	Mode string `json:"mode"`
	// Slot is the number of the permit; zero for other modes.
	Slot int `json:"slot"`
	// Value is the value shown with the lease; absent without one.
	Value Value `json:"value,omitempty"`
	// Version is the version of the value, from 1; zero without a value.
	Version uint64 `json:"version"`
	// Unsure says that the request may be granted or not: its node, a voter itself, ended or was
	// cut off before any other voter heard of the outcome. See [lockmesh.Holder].
	Unsure bool `json:"unsure"`
	// Since is about when the lease was granted.
	Since time.Time `json:"since"`
	// LeftMS is for how many milliseconds the voters would still wait if they heard nothing more
	// from the node.
	LeftMS int64 `json:"left_ms"`
}

// Waiter is a waiting request as seen by the voters, see [lockmesh.Waiter].
type Waiter struct {
	// Node is the waiter's node.
	Node string `json:"node"`
	// Mode is "exclusive", "shared" or "permit".
	Mode string `json:"mode"`
	// Try says that the request doesn't wait behind others.
	Try bool `json:"try"`
	// Value is the value of the request; absent without one.
	Value Value `json:"value,omitempty"`
	// Since is about when the request arrived.
	Since time.Time `json:"since"`
}

// Event is an event of a key, see [lockmesh.Event].
type Event struct {
	// Kind is "granted", "released", "lost", "waiting", "changed", "gap" or "synced". At a gap
	// discard all known state: events may be missing, and the present state follows as events with
	// Current set, and then "synced".
	Kind string `json:"kind"`
	// Key is the name of the lock; empty for "gap" and "synced", as are all fields but At.
	Key string `json:"key"`
	// Node is the node of the lease or of the request.
	Node string `json:"node"`
	// Token is the first token of the lease; zero for a request.
	Token uint64 `json:"token"`
	// Previous is the token before an upgrade; zero otherwise.
	Previous uint64 `json:"previous"`
	// Mode is "exclusive", "shared" or "permit"; empty for "gap" and "synced".
	Mode string `json:"mode"`
	// Slot is the number of the permit; zero for other modes.
	Slot int `json:"slot"`
	// Value is the value, as far as known; absent without one.
	Value Value `json:"value,omitempty"`
	// Version is the version of the value; zero without a value.
	Version uint64 `json:"version"`
	// Current says that the event describes a state from before.
	Current bool `json:"current"`
	// At is about when the event happened, or since when the state has existed.
	At time.Time `json:"at"`
}

// Lease is a lease of a client, which ends by itself unless the client extends it.
type Lease struct {
	// ID is the name of the lease for its client: random, 128 bits. Other clients don't learn it.
	ID string `json:"id"`
	// Key is the name of the lock.
	Key string `json:"key"`
	// Token is the fencing token: pass it to the protected resource.
	Token uint64 `json:"token"`
	// Node is the node that has taken the lock for the client.
	Node string `json:"node"`
	// Mode is "exclusive", "shared" or "permit".
	Mode string `json:"mode"`
	// Slot is the number of the permit; zero for other modes.
	Slot int `json:"slot"`
	// TTLMS is the length of the lease in milliseconds: from the grant, and from each extension.
	// Zero for a hold, which lasts as long as its connection.
	TTLMS int64 `json:"ttl_ms"`
	// Deadline is until when the voters keep the key whatever happens to the node, by the clock of
	// the node's machine. With a minimum hold the lease may last a little longer.
	Deadline time.Time `json:"deadline"`
	// LeftMS is the time until Deadline in milliseconds, as of the answer.
	LeftMS int64 `json:"left_ms"`
	// Revocations are requests to release the lease, since the last answer about the lease.
	Revocations []Revocation `json:"revocations"`
}

// Revocation is a request to release a lease, see [lockmesh.Revocation].
type Revocation struct {
	// Node is the requesting node.
	Node string `json:"node"`
	// Reason is the reason given; may be empty.
	Reason string `json:"reason"`
}

// HoldLine is a line of a connection that holds a key.
type HoldLine struct {
	// ID is the name of the lease for its client, as in [Lease]. DELETE /v1/leases/{id} releases
	// the key, and answers when the key is released; the end of the connection releases the key a
	// moment later.
	ID string `json:"id"`
	// Event is "held" on the first line, "alive" as long as the key is held, "revoked" when a node
	// asks for the key, and "end" on the last line. With an "end" by the error "stopping" the
	// server keeps the key until the client closes the connection, or until Deadline.
	Event string `json:"event"`
	// Key is the name of the lock.
	Key string `json:"key"`
	// Token is the fencing token: pass it to the protected resource.
	Token uint64 `json:"token"`
	// Node is the node that holds the key for the client.
	Node string `json:"node"`
	// Mode is "exclusive", "shared" or "permit".
	Mode string `json:"mode"`
	// Slot is the number of the permit; zero for other modes.
	Slot int `json:"slot"`
	// TTLMS is the length of the lease in milliseconds: each renewal by the node makes the lease
	// last for about so long.
	TTLMS int64 `json:"ttl_ms"`
	// Deadline is when the lease ends unless the node renews it before, as the node does.
	Deadline time.Time `json:"deadline"`
	// LeftMS is the time until Deadline in milliseconds. If no line comes for so long, the lease
	// may be lost.
	LeftMS int64 `json:"left_ms"`
	// Revocation is the request, if Event is "revoked".
	Revocation *Revocation `json:"revocation,omitempty"`
	// Failure says why the key isn't held any more, if Event is "end".
	Failure *Error `json:"failure,omitempty"`
}

// RevokeRequest is the body of POST /v1/locks/{key}/revoke.
type RevokeRequest struct {
	// Reason is shown to the holders; up to [lockmesh.MaxReasonLen] bytes.
	Reason string `json:"reason"`
}

// EvictRequest is the body of POST /v1/locks/{key}/evict. It needs a token or a node.
type EvictRequest struct {
	// Token selects the lease, as GET /v1/locks/{key} shows it. Zero selects the lease of Node if
	// that node holds the key once.
	Token uint64 `json:"token"`
	// Node, if not empty, must be the lease's node.
	Node string `json:"node"`
	// Reason is shown to the holder; up to [lockmesh.MaxReasonLen] bytes.
	Reason string `json:"reason"`
}

// Evicted is the answer to an eviction.
type Evicted struct {
	// Key is the name of the lock.
	Key string `json:"key"`
	// Token is the token of the lease that has ended.
	Token uint64 `json:"token"`
	// Node is the node of the lease; empty if the lease had ended before.
	Node string `json:"node"`
}

// RecoverRequest is the body of POST /v1/recover.
type RecoverRequest struct {
	// Voters are the names of the nodes that shall vote, the answering node among them.
	Voters []string `json:"voters"`
}

// Value is the value of a lease, any bytes. In JSON it is a string if the bytes are UTF-8, and
// otherwise an object {"base64": "…"}.
type Value []byte

type base64Value struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements [json.Marshaler].
func (v Value) MarshalJSON() ([]byte, error) {
	if utf8.Valid(v) {
		return json.Marshal(string(v))
	}
	return json.Marshal(base64Value{v})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Value) UnmarshalJSON(data []byte) error {
	var text *string
	if json.Unmarshal(data, &text) == nil {
		*v = nil
		if text != nil {
			*v = Value(*text)
		}
		return nil
	}
	var b base64Value
	if err := json.Unmarshal(data, &b); err != nil {
		return fmt.Errorf("admin: a value is a string or an object with base64: %w", err)
	}
	*v = b.Base64
	return nil
}
