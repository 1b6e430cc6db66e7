package vote

import "time"

// Kind says what a message is. Its zero value is no message.
type Kind uint8

// The words a requester speaks to a voter, then those a voter speaks to a requester.
// Behind each stand the fields of Message that it uses; all that aren't said to be bound to no stream use Stream too.
const (
	KindNone Kind = iota

	// KindOpen begins a stream and its statement: TTL, RTT, Sent, Elected.
	KindOpen
	// KindStatement is one chunk of the statement: Entries, End.
	KindStatement
	// KindRequest asks for a key: Number, Wish, Time, Bid.
	KindRequest
	// KindConfirm names a ballot's token, or the lease's once it is won: Number, Serial, Token, Slot, Won.
	// It is also the answer "held" to an inquiry.
	KindConfirm
	// KindYield gives a vote back that has not won, or is for the wrong slot: Number, Serial, and Slot if only that one is of use.
	KindYield
	// KindRelease ends a request, whatever became of it: Number, Lost, and a Bid for whoever has waited.
	KindRelease
	// KindExtend has a vote last for its request's length from now: Number, Serial, Sent.
	KindExtend
	// KindShare turns an exclusive lease into a shared one: Number.
	KindShare
	// KindSet gives a request a value for others to see: Number, Version, Value.
	KindSet
	// KindUrge has whoever holds the key asked to give it back, as long as the request waits: Number, Text.
	KindUrge
	// KindRefresh extends the session: Sent, Received, RTT, Elected. Refresh lane.
	KindRefresh
	// KindAlive answers a probe. Refresh lane.
	KindAlive
	// KindLook asks who holds a key and who waits for it, or all keys with a prefix: Nonce, Key, Prefix. Bound to no stream.
	KindLook
	// KindWatch asks what has happened to a key, or to all keys with a prefix, since the point that an earlier answer named: Nonce, Key,
	// Prefix, Life, Seq. It is answered as soon as there is something to tell; with End nothing is to be told any more. Bound to no stream.
	KindWatch
	// KindRevoke has whoever holds a key asked to give it back: Nonce, Key, Text. Bound to no stream.
	KindRevoke
	// KindAsk asks a voter for the highest token it knows: Nonce. Refresh lane, bound to no stream.
	KindAsk

	// KindAnswer is one chunk of the answer to a statement: Entries (Number, Serial, Slot, Token of each vote that stands), End; with
	// End also Sent (echo), Life, Generation, Quiet, Wall, Elected, Dir.
	KindAnswer
	// KindPromise gives a vote: Number, Serial, Slot, Token, Elected; with Urge, somebody else waits already.
	KindPromise
	// KindConfirmed says that a vote now has the token named: Number, Serial, Token.
	KindConfirmed
	// KindInquire asks whether a tentative vote has won yet: Number, Serial.
	KindInquire
	// KindTaken tells a TryLock that another request has won its key: Number, and Token of the newest lease that the voter knows of.
	KindTaken
	// KindReleased says that nothing of a request is left: Number.
	KindReleased
	// KindBusy says that a request was not taken in, since the voter is full: Number.
	KindBusy
	// KindUnfit says that a request was not taken in, since others use the key with another number of permits: Number, Permits.
	KindUnfit
	// KindClash says that an upgrade was not taken in, since an older one waits for the same key: Number.
	KindClash
	// KindExtended says that a vote was extended: Number, Serial, Sent (echo), Elected.
	KindExtended
	// KindLapsed says that a vote has outlasted its request's length and is void: Number, Serial.
	KindLapsed
	// KindNoted says that a value was taken in: Number, Version.
	KindNoted
	// KindWanted tells a holder that somebody waits for its key, and with Urge that it is asked to give it back: Number, Who, Text, Urge.
	KindWanted
	// KindShow is one chunk of the answer to a look: Nonce, Sights, End; with End also Permits, and Gap if there is more than is shown.
	KindShow
	// KindNews answers a watch: Nonce, Life, Seq, Gap, Sights.
	KindNews
	// KindPassed says to how many holders a revocation was passed on: Nonce, Count.
	KindPassed
	// KindUnknown says that the voter knows no such stream of this session. Refresh lane.
	KindUnknown
	// KindAck answers a refresh: Sent (echo), Life, Generation, Processed, Pushed, Count, Hash, Quiet, Wall, Clock, Elected.
	// Refresh lane.
	KindAck
	// KindProbe asks a session's owner whether it lives, since another life of its name has come. Refresh lane.
	KindProbe
	// KindRefused turns a life away: Reason, Elected. Refresh lane.
	KindRefused
	// KindTell answers an Ask: Nonce, Token, Counting. Refresh lane, bound to no stream.
	KindTell

	// What nodes say to each other about an electorate that follows the living, over any connection between them, either way. All are in the
	// refresh lane and bound to no stream.

	// KindElectorate tells the newest electorate that the speaker knows to be decided: Elected, Electing (Electorate).
	KindElectorate
	// KindPoll asks how a node stands: Nonce, Elected.
	KindPoll
	// KindReport answers: Nonce, Elected, Token, Counting, Electing (Dir, Writes, Most, Electorate with the pledge of a founder, Founding, Stuck, Leaving).
	KindReport
	// KindPrepare asks a voter to promise that it accepts no earlier attempt to elect: Version, Electing (Attempt).
	KindPrepare
	// KindPrepared is the promise: Version, Electing (Attempt, Promised, Accepted, Electorate that was accepted). Where Promised is above Attempt it is none.
	KindPrepared
	// KindAccept asks a voter to accept an electorate: Version, Electing (Attempt, Electorate).
	KindAccept
	// KindAccepted says that it has: Version, Electing (Attempt, Promised). Where Promised is above Attempt it hasn't.
	KindAccepted

	kindEnd
)

// Valid reports whether this version knows the kind.
func (k Kind) Valid() bool { return k > KindNone && k < kindEnd }

// Elects reports whether the kind is about an electorate that follows the living. It is spoken either way.
func (k Kind) Elects() bool { return k >= KindElectorate && k <= KindAccepted }

// ToVoter reports whether the kind is spoken by a requester to a voter; the others go the other way, but for those about electorates.
func (k Kind) ToVoter() bool { return k >= KindOpen && k <= KindAsk }

// Urgent reports whether the kind travels in the refresh lane, which no lock traffic may delay. Messages of that lane may
// overtake the others of their stream, and are not counted in it.
func (k Kind) Urgent() bool {
	switch k {
	case KindRefresh, KindAlive, KindAsk, KindUnknown, KindAck, KindProbe, KindRefused, KindTell:
		return true
	}
	return k.Elects()
}

var kindNames = [...]string{
	KindNone: "none", KindOpen: "open", KindStatement: "statement", KindRequest: "request", KindConfirm: "confirm",
	KindYield: "yield", KindRelease: "release", KindExtend: "extend", KindShare: "share", KindSet: "set", KindUrge: "urge",
	KindLook: "look", KindWatch: "watch", KindRevoke: "revoke", KindRefresh: "refresh", KindAlive: "alive", KindAsk: "ask",
	KindAnswer: "answer", KindPromise: "promise", KindConfirmed: "confirmed", KindInquire: "inquire", KindTaken: "taken",
	KindReleased: "released", KindBusy: "busy", KindUnfit: "unfit", KindClash: "clash", KindExtended: "extended", KindLapsed: "lapsed",
	KindNoted: "noted", KindWanted: "wanted", KindShow: "show", KindNews: "news", KindPassed: "passed", KindUnknown: "unknown", KindAck: "ack", KindProbe: "probe",
	KindRefused: "refused", KindTell: "tell", KindElectorate: "electorate", KindPoll: "poll", KindReport: "report",
	KindPrepare: "prepare", KindPrepared: "prepared", KindAccept: "accept", KindAccepted: "accepted",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Message is any word of the protocol. Kind says which fields count; the others are zero. It is one flat struct, so that the
// steady path allocates nothing.
type Message struct {
	Wish // of a request; its Key is also the key looked at, watched or revoked, and its Permits those that others use it with

	Kind   Kind
	Reason Reason // of a refusal
	Won    bool   // the ballot is decided, and this is its lease's token
	Lost   bool   // the lease ended before it was given back
	End    bool   // the last chunk of a statement or an answer; or of what is asked
	Prefix bool   // all keys that begin with Key are meant
	Gap    bool   // what happened before what is told here isn't known any more; or there is more than is shown
	Urge   bool   // the holder is asked to give the key back

	Counting bool // the voter that tells a token isn't quiet

	Slot   Slot
	Stream Stream
	Number Number
	Serial Serial
	Time   Micros // of the request's stamp
	Bid    Token
	Token  Token
	Nonce  uint64

	Sent Instant       // when the refresh or statement was sent, on the requester's clock; the voter only echoes it
	TTL  time.Duration // of the session
	RTT  time.Duration // the requester's round trip to the voters; zero while it reaches no majority that counts

	Life       Life          // the voter's
	Generation Generation    // the session's
	Received   uint64        // pushes of this stream that the requester has received
	Processed  uint64        // messages of this stream that the voter has processed
	Pushed     uint64        // messages of this stream that the voter has sent
	Count      uint64        // requests that the voter keeps for the session
	Hash       uint64        // digest of those requests and of the votes they have; see Ledger
	Quiet      time.Duration // how much longer the voter is quiet at least; zero when its votes count
	Wall       Micros        // the voter's wall clock
	Clock      Instant       // the voter's slow clock, by which it measures its promises; only differences mean anything

	Version uint64 // of a value, from 1; of the electorate that is being elected
	Seq     uint64 // how much of the voter's news has been told
	Value   []byte
	Who     NodeID // who wants the key
	Text    string // why

	Elected  uint64    // the version of the electorate that the speaker goes by; zero while it is fixed, or unknown
	Dir      Dir       // the voter's
	Electing *Electing // nobody changes it once it is said

	Entries []Entry // of a statement or an answer
	Sights  []Sight // of what is shown or told
}

// Entry is one request in a statement, or one vote in the answer to it.
type Entry struct {
	Wish
	Number  Number
	Time    Micros
	Bid     Token
	Serial  Serial // the vote that the requester counts; zero for none. In an answer: the vote that stands
	Yielded Serial // the newest vote that the requester has given back; it and all older ones are void
	Slot    Slot   // the lease's, or the only one of use to the request. In an answer: the vote's
	Token   Token  // the lease's token when the request has won, zero otherwise. In an answer: the vote's token
}

// Limits of what a message may carry. A peer that exceeds one is cut off.
const (
	// MaxKeyLen is the longest key in bytes. It keeps a request in one small packet; longer names belong in a hash of the caller's.
	MaxKeyLen = 512
	// MaxNameLen is the longest name of a node in bytes, as in memberlist's packets, whose header must leave room for it.
	MaxNameLen = 128
	// MaxEntries is how many entries a chunk may carry: with keys of full length a chunk stays below a frame of 64 KiB.
	MaxEntries = 80
	// MaxValueLen is the longest value of a lease in bytes. Values are for an address or a few words; every voter keeps them in memory.
	MaxValueLen = 4096
	// MaxTextLen is the longest reason in bytes that one who wants a key may give.
	MaxTextLen = 256
	// MaxSights is how many sights a chunk may carry, and MaxSightBytes how many bytes their values may have together, so that a chunk
	// stays below a frame of 64 KiB however long the keys are.
	MaxSights     = 40
	MaxSightBytes = 16 << 10
	// MaxShown is about how many sights the answer to one look has: of a prefix with more, those of the first names. A voter sends them all at once.
	MaxShown      = 1 << 16
	MaxShownBytes = 16 << 20 // of their values
	// MaxVoters is the largest electorate. Beyond a few dozen a majority only gets slower; a Set has 64 bits.
	MaxVoters = 63
)

// Reason says why a voter turns a life away.
type Reason uint8

const (
	// ReasonNone is no refusal.
	ReasonNone Reason = iota
	// ReasonNameTaken : another life of the same name answers probes, or has taken its place.
	ReasonNameTaken
	// ReasonNotVoter : the node asked isn't in the electorate.
	ReasonNotVoter
	// ReasonTTL : the session's TTL is outside what the voter can promise.
	ReasonTTL
	// ReasonTerms : the handshake found values that must be the same on both sides and aren't.
	ReasonTerms
	// ReasonSecret : one side couldn't prove that it knows the mesh's secret.
	ReasonSecret
	// ReasonOldCopy : its state directory is known to have said more than it says now, so it was put back from an old copy.
	ReasonOldCopy

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
	}
	return "unknown reason"
}

// Outbound is what a state machine wants done with a connection: a message sent, or (Close) the connection ended.
type Outbound struct {
	Conn    Conn
	Close   bool
	Later   bool // nobody waits for it: it may be sent a moment later, together with the next word to the same connection
	Message Message
}
