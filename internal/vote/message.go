package vote

import "time"

// Kind is the kind of a message. Its zero value is no message.
type Kind uint8

// First the kinds of messages from a requester to a voter, then from a voter to a requester. Each
// comment lists the fields of Message in use; unless bound to no stream, a message uses Stream too.
const (
	KindNone Kind = iota

	// KindOpen begins a stream and its sync: TTL, RTT, Sent, Epoch, Heard, Void.
	KindOpen
	// KindSync is a chunk of the sync: Entries, End.
	KindSync
	// KindRequest asks for a key: Number, Spec, Time, TokenHint.
	KindRequest
	// KindConfirm names the token on which a request's tally has settled, or the token of the lease
	// once the request has won: Number, Serial, Token, Slot, Won. It is also the answer "held" to
	// an inquiry.
	KindConfirm
	// KindYield gives back a vote of a request that has not won, or a vote for the wrong slot:
	// Number, Serial, and Slot if no other slot is of use.
	KindYield
	// KindRelease ends a request in any state: Number, Lost, and a TokenHint for the next waiting
	// requests.
	KindRelease
	// KindExtend makes a vote last for its request's length from now: Number, Serial, Sent; TTL is
	// the new Spec.EndsAfter of the lease, from now on if the lease is held, zero if EndsAfter
	// stays. For a request without a length only TTL matters.
	KindExtend
	// KindDowngrade turns an exclusive lease into a shared lease: Number.
	KindDowngrade
	// KindSetValue gives a request a value for other nodes to see: Number, Version, Value. With
	// VersionReleased or VersionEnded, the lease is over, and the request keeps the key for the
	// rest of a minimum hold.
	KindSetValue
	// KindRevokeForRequest asks the holders of the key to give it back, as long as the request
	// waits: Number, Text.
	KindRevokeForRequest
	// KindRefresh extends the session: Sent, Received, RTT, Epoch, Heard, Void. Refresh lane.
	KindRefresh
	// KindProbeReply answers a probe. Refresh lane.
	KindProbeReply
	// KindQuery queries who holds a key and who waits for it, or does so for all keys with a
	// prefix: Nonce, Key, Prefix; with a prefix, only keys after Value by name, and at most Count
	// keys unless Count is zero. Bound to no stream.
	KindQuery
	// KindWatch asks for the events of a key, or of all keys with a prefix, since the point named
	// by an earlier answer: Nonce, Key, Prefix, Incarnation, Seq. The voter answers as soon as
	// there is an event; End ends the watch. Bound to no stream.
	KindWatch
	// KindRevoke asks the holders of a key to give it back: Nonce, Key, Text. With Token, the node
	// that holds the lease with this token is to end the lease, and no other lease is concerned.
	// Bound to no stream.
	KindRevoke
	// KindTokenQuery asks a voter for the highest token known to it: Nonce. Refresh lane, bound to
	// no stream.
	KindTokenQuery

	// KindAnswer is a chunk of the answer to a sync: Entries (Number, Serial, Slot, Token of each
	// vote that stands), End; with End also Sent (echo), Incarnation, Generation, Quiet, Wall,
	// Epoch, Dir, Void.
	KindAnswer
	// KindPromise gives a vote: Number, Serial, Slot, Token, Epoch; with Revoke, another request
	// already waits for the key.
	KindPromise
	// KindConfirmed reports that a vote now has the given token: Number, Serial, Token.
	KindConfirmed
	// KindInquire asks whether a tentative vote has won yet: Number, Serial.
	KindInquire
	// KindHeld tells a TryLock that another request has won the key: Number, and Token of the
	// newest lease known to the voter.
	KindHeld
	// KindReleased reports that nothing of a request is left: Number.
	KindReleased
	// KindBusy reports that a request was rejected since the voter is full: Number.
	KindBusy
	// KindPermitsDiffer reports that a request was rejected since other requests use the key with
	// another number of permits: Number, Permits.
	KindPermitsDiffer
	// KindClash reports that an upgrade was rejected since an older upgrade waits for the same key:
	// Number.
	KindClash
	// KindExtended reports that a vote was extended: Number, Serial, Sent (echo), Epoch.
	KindExtended
	// KindLapsed reports that a vote has outlasted its request's length and is void: Number,
	// Serial.
	KindLapsed
	// KindValueStored reports that a value was stored: Number, Version.
	KindValueStored
	// KindContended tells a holder that another request waits for the key: Number, Who, Text,
	// Revoke, Token. With Revoke the holder is asked to give the key back; with Token the holder's
	// node is to end the lease (see KindRevoke), or to say how often the lease was handed off
	// (AskHandOffs).
	KindContended
	// KindQueryResult is a chunk of the answer to a query: Nonce, Views, End; with End also
	// Permits, Gap if there is more than shown, and TTL, the time since the voter last lost a vote
	// without a message from the vote's owner.
	KindQueryResult
	// KindEvents answers a watch: Nonce, Incarnation, Seq, Gap, Views.
	KindEvents
	// KindRevokeForwarded reports to how many holders a revoke request was passed on: Nonce, Count.
	KindRevokeForwarded
	// KindUnknown reports that the voter doesn't know the stream of this session. Refresh lane.
	KindUnknown
	// KindAck answers a refresh: Sent (echo), Incarnation, Generation, Processed, Pushed, Count,
	// Hash, Quiet, Wall, Clock, Epoch, Void. Refresh lane.
	KindAck
	// KindProbe asks whether a session's owner is alive, since another incarnation of its name has
	// appeared. Refresh lane.
	KindProbe
	// KindRefused refuses an incarnation: Reason, Epoch. Refresh lane.
	KindRefused
	// KindTokenAnswer answers a KindTokenQuery: Nonce, Token, Counting. Refresh lane, bound to no
	// stream.
	KindTokenAnswer

	// Messages between nodes about a dynamic electorate, over any connection between two nodes, in
	// both directions. All are in the refresh lane and bound to no stream.

	// KindElectorate carries the newest electorate that the sender knows to be decided: Epoch,
	// Consensus (Electorate).
	KindElectorate
	// KindPoll asks for a node's state: Nonce, Epoch.
	KindPoll
	// KindReport answers a KindPoll: Nonce, Epoch, Token, Counting, Consensus (Dir, Writes,
	// MaxVoters, Electorate with the pledge of a founder, Founding, Stuck, Leaving, Contacts).
	KindReport
	// KindPrepare asks a voter to promise not to accept any earlier Paxos ballot: Version,
	// Consensus (Ballot).
	KindPrepare
	// KindPrepared is the promise: Version, Consensus (Ballot, Promised, Accepted, Electorate
	// accepted). If Promised is above Ballot, the message is a rejection.
	KindPrepared
	// KindAccept asks a voter to accept an electorate: Version, Consensus (Ballot, Electorate).
	KindAccept
	// KindAccepted reports the acceptance: Version, Consensus (Ballot, Promised). If Promised is
	// above Ballot, the message is a rejection.
	KindAccepted

	kindEnd
)

// Valid reports whether this version knows the kind.
func (k Kind) Valid() bool { return k > KindNone && k < kindEnd }

// IsConsensus reports whether the kind is about a dynamic electorate. Such messages go in both
// directions.
func (k Kind) IsConsensus() bool { return k >= KindElectorate && k <= KindAccepted }

// ToVoter reports whether messages of the kind go from a requester to a voter. All others go from a
// voter to a requester, except messages about electorates.
func (k Kind) ToVoter() bool { return k >= KindOpen && k <= KindTokenQuery }

// Urgent reports whether the kind travels in the refresh lane, which no lock traffic may delay.
// Messages in the refresh lane may overtake the others of their stream, and are not counted in the
// stream.
func (k Kind) Urgent() bool {
	switch k {
	case KindRefresh, KindProbeReply, KindTokenQuery, KindUnknown, KindAck, KindProbe, KindRefused, KindTokenAnswer:
		return true
	}
	return k.IsConsensus()
}

var kindNames = [...]string{
	KindNone: "none", KindOpen: "open", KindSync: "sync", KindRequest: "request", KindConfirm: "confirm",
	KindYield: "yield", KindRelease: "release", KindExtend: "extend", KindDowngrade: "downgrade", KindSetValue: "set-value", KindRevokeForRequest: "revoke-for-request",
	KindQuery: "query", KindWatch: "watch", KindRevoke: "revoke", KindRefresh: "refresh", KindProbeReply: "probe-reply", KindTokenQuery: "token-query",
	KindAnswer: "answer", KindPromise: "promise", KindConfirmed: "confirmed", KindInquire: "inquire", KindHeld: "held",
	KindReleased: "released", KindBusy: "busy", KindPermitsDiffer: "permits-differ", KindClash: "clash", KindExtended: "extended", KindLapsed: "lapsed",
	KindValueStored: "value-stored", KindContended: "contended", KindQueryResult: "query-result", KindEvents: "events", KindRevokeForwarded: "revoke-forwarded", KindUnknown: "unknown", KindAck: "ack", KindProbe: "probe",
	KindRefused: "refused", KindTokenAnswer: "token-answer", KindElectorate: "electorate", KindPoll: "poll", KindReport: "report",
	KindPrepare: "prepare", KindPrepared: "prepared", KindAccept: "accept", KindAccepted: "accepted",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Message is any message of the protocol. Kind determines the fields in use; the others are zero.
// Message is a single flat struct, so that the steady path allocates nothing.
type Message struct {
	// Of a request; Key is also the key of a query, a watch or a revoke request, and Permits is
	// also the number of permits with which other requests use the key
	Spec

	Kind   Kind
	Reason Reason // of a refusal
	Won    bool   // the tally has won, and Token is the lease's token
	Lost   bool   // the lease ended before it was given back
	// The last chunk of a sync, of an answer or of a query's results; or the end of a watch
	End    bool
	Prefix bool // all keys that begin with Key
	// Earlier events aren't known any more; or there is more than shown
	Gap    bool
	Revoke bool // the holder is asked to give the key back

	Counting bool // the voter that reports a token isn't quiet

	Slot      Slot
	Stream    Stream
	Number    Number
	Serial    Serial
	Time      Micros // of the request's stamp
	TokenHint Token
	Token     Token
	Nonce     uint64

	// When the refresh or sync was sent, on the requester's clock; the voter only echoes Sent
	Sent Instant
	// Heard is Sent of the newest answer or acknowledgement that the requester has received from
	// this incarnation of the voter; zero is no information.
	Heard Instant
	// Void, in a refresh: acknowledgements later than Heard and still on their way no longer extend
	// the session. In an open message: the previous sync to the same incarnation of the voter
	// wasn't answered. In an answer or an acknowledgement: the message doesn't extend the session.
	Void bool
	TTL  time.Duration // of the session
	// The requester's round trip to the voters; zero while the requester reaches no majority that
	// counts
	RTT time.Duration

	Incarnation Incarnation // the voter's
	Generation  Generation  // the session's
	Received    uint64      // pushes of this stream that the requester has received
	Processed   uint64      // messages of this stream that the voter has processed
	Pushed      uint64      // messages of this stream that the voter has sent
	Count       uint64      // requests that the voter keeps for the session
	Hash        uint64      // digest of these requests and their votes; see Digest
	// A lower bound for the time until the voter's votes count; zero when they count
	Quiet time.Duration
	Wall  Micros // the voter's wall clock
	// The voter's slow clock, with which the voter measures its promises; only differences are
	// meaningful
	Clock Instant

	Version uint64 // of a value, from 1; or of the electorate in election
	Seq     uint64 // number of the voter's events reported so far
	Value   []byte
	Who     NodeID // the node that wants the key
	Text    string // the reason

	// The version of the electorate applied by the sender; zero if fixed or unknown
	Epoch     uint64
	Dir       Dir        // the voter's
	Consensus *Consensus // must not be changed once sent

	Entries []Entry // of a sync or an answer
	Views   []View  // of a query's results or of events
}

// Entry is a request in a sync, or a vote in the answer to a sync.
type Entry struct {
	Spec
	Number    Number
	Time      Micros
	TokenHint Token
	// The vote that the requester counts; zero for none. In an answer: the vote that stands
	Serial Serial
	// The newest vote that the requester has given back; all votes up to Yielded are void
	Yielded Serial
	// The lease's slot, or the only slot of use to the request. In an answer: the vote's slot
	Slot Slot
	// The lease's token if the request has won, zero otherwise. In an answer: the vote's token
	Token Token
}

// Limits of a message. A peer that exceeds a limit is disconnected.
const (
	// MaxKeyLen is the longest key in bytes. The limit keeps a request in a single small packet; an
	// application with longer names should use a hash of them as the key.
	MaxKeyLen = 512
	// MaxNameLen is the longest name of a node in bytes: memberlist's packets must have room for
	// the name in their header.
	MaxNameLen = 128
	// MaxEntries is how many entries a chunk may carry: even with keys of full length, a chunk
	// stays below a frame of 64 KiB.
	MaxEntries = 80
	// MaxValueLen is the longest value of a lease in bytes. Values are for an address or a few
	// words; every voter keeps the values in memory.
	MaxValueLen = 4096
	// MaxTextLen is the longest reason in bytes for a request or a revoke request.
	MaxTextLen = 256
	// MaxViews is how many view entries a chunk may carry, and MaxViewBytes is the size of their
	// values together, so that a chunk stays below a frame of 64 KiB for keys of any length.
	MaxViews     = 40
	MaxViewBytes = 16 << 10
	// MaxQueried is roughly how many view entries the answer to a query has: of a prefix with more,
	// the entries of the keys that come first by name. A voter sends all of them at once.
	MaxQueried      = 1 << 16
	MaxQueriedBytes = 16 << 20 // of their values
	// MaxVoters is the largest electorate. Beyond a few dozen voters a majority only gets slower;
	// and a Set has 64 bits.
	MaxVoters = 63
)

// Reason is the reason why a voter refuses an incarnation.
type Reason uint8

const (
	// ReasonNone is no refusal.
	ReasonNone Reason = iota
	// ReasonNameTaken means that another incarnation of the same name answers probes, or has taken
	// over.
	ReasonNameTaken
	// ReasonNotVoter means that the receiving node isn't in the electorate.
	ReasonNotVoter
	// ReasonTTL means that the session's TTL is outside what the voter can promise.
	ReasonTTL
	// ReasonTerms means that the handshake found different values for settings that must agree.
	ReasonTerms
	// ReasonSecret means that a side couldn't prove knowledge of the mesh's secret.
	ReasonSecret
	// ReasonOldCopy means that the node's state directory is known to have had later content than
	// now, so the directory was restored from an old copy.
	ReasonOldCopy
	// ReasonDeposed means that the voter counted, and doesn't any more: votes of another
	// configuration, or of an older process of its name, count instead. The voter's promises are
	// void from now on, so leases that rest on them end at once.
	ReasonDeposed

	reasonEnd
)

// Valid reports whether this version knows the reason.
func (r Reason) Valid() bool { return r < reasonEnd }

func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "not refused"
	case ReasonNameTaken:
		return "the name is taken by another live process"
	case ReasonNotVoter:
		return "the node asked is not a voter"
	case ReasonTTL:
		return "the TTL is outside what the voter can promise"
	case ReasonTerms:
		return "the configurations differ"
	case ReasonSecret:
		return "the secrets differ"
	case ReasonOldCopy:
		return "its state directory is an old copy"
	case ReasonDeposed:
		return "the voter withdrew: another configuration of the mesh counts, or an older process has its name; its log has the details"
	}
	return "unknown reason"
}

// Outbound is an action of a state machine on a connection: send a message, or (Close) end the
// connection.
type Outbound struct {
	Conn  Conn
	Close bool
	// Not urgent: the message may be sent a moment later, together with the next message to the
	// same connection
	Later   bool
	Message Message
}
