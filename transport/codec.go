package transport

import (
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// ErrMalformed marks an error about bytes that are no message of this wire version, or about a message that can't be one. The
// peer that sent such bytes is to be cut off; trying again doesn't help.
var ErrMalformed = errors.New("malformed message")

// fields is the set of a message's fields that travel for its kind. They travel in the order of the bits below, so encoder
// and decoder can't disagree about it.
type fields uint64

const (
	hasStream fields = 1 << iota
	hasEnd
	hasNumber
	hasSerial
	hasKey
	hasTime
	hasBid
	hasToken
	hasWish
	hasSlot
	hasWon
	hasLost
	hasPermits
	hasPrefix
	hasUrge
	hasGap
	hasWho
	hasText
	hasVersion
	hasSeq
	hasValue
	hasReason
	hasNonce
	hasCounting
	hasTTL
	hasRTT
	hasSent
	hasLife
	hasGeneration
	hasReceived
	hasProcessed
	hasPushed
	hasCount
	hasHash
	hasQuiet
	hasWall
	hasClock
	hasRequests // Entries, each with everything that a statement says of a request
	hasVotes    // Entries, each with what an answer says of a vote: Number, Serial, Slot, Token
	hasSights
	hasElected
	hasDir
	hasElecting
)

// Groups of fields that follow upon each other, and of which most kinds have none: one look tells instead of one for each.
const (
	someMarks = hasPermits | hasPrefix | hasUrge | hasGap
	someWords = hasWho | hasText | hasVersion | hasSeq | hasValue | hasReason | hasNonce | hasCounting
	someTimes = hasTTL | hasRTT | hasSent
	someState = hasLife | hasGeneration | hasReceived | hasProcessed | hasPushed | hasCount | hasHash | hasQuiet | hasWall | hasClock
	someLists = hasRequests | hasVotes | hasSights
)

const (
	wishWords    = 8  // elements of a wish
	requestWords = 8  // elements of an entry of a statement
	voteWords    = 4  // elements of an entry of an answer
	sightWords   = 16 // elements of a sight

	attemptWords    = 2
	electorWords    = 2
	electorateWords = 5
	electingWords   = 10
)

// layouts says which fields each kind carries: the comments of vote.Kind as a table.
var layouts = [...]fields{
	vote.KindOpen:      hasStream | hasTTL | hasRTT | hasSent | hasElected,
	vote.KindStatement: hasStream | hasEnd | hasRequests,
	vote.KindRequest:   hasStream | hasNumber | hasWish | hasTime | hasBid,
	vote.KindConfirm:   hasStream | hasNumber | hasSerial | hasToken | hasSlot | hasWon,
	vote.KindYield:     hasStream | hasNumber | hasSerial | hasSlot,
	vote.KindRelease:   hasStream | hasNumber | hasBid | hasLost,
	vote.KindExtend:    hasStream | hasNumber | hasSerial | hasSent,
	vote.KindShare:     hasStream | hasNumber,
	vote.KindSet:       hasStream | hasNumber | hasVersion | hasValue,
	vote.KindUrge:      hasStream | hasNumber | hasText,
	vote.KindLook:      hasNonce | hasKey | hasPrefix,
	vote.KindWatch:     hasNonce | hasEnd | hasKey | hasPrefix | hasLife | hasSeq,
	vote.KindRevoke:    hasNonce | hasKey | hasText,
	vote.KindRefresh:   hasStream | hasSent | hasReceived | hasRTT | hasElected,
	vote.KindAlive:     hasStream,
	vote.KindAsk:       hasNonce,

	vote.KindAnswer:    hasStream | hasEnd | hasVotes,
	vote.KindPromise:   hasStream | hasNumber | hasSerial | hasToken | hasSlot | hasUrge | hasElected,
	vote.KindConfirmed: hasStream | hasNumber | hasSerial | hasToken,
	vote.KindInquire:   hasStream | hasNumber | hasSerial,
	vote.KindTaken:     hasStream | hasNumber | hasToken,
	vote.KindReleased:  hasStream | hasNumber,
	vote.KindBusy:      hasStream | hasNumber,
	vote.KindUnfit:     hasStream | hasNumber | hasPermits,
	vote.KindClash:     hasStream | hasNumber,
	vote.KindExtended:  hasStream | hasNumber | hasSerial | hasSent | hasElected,
	vote.KindLapsed:    hasStream | hasNumber | hasSerial,
	vote.KindNoted:     hasStream | hasNumber | hasVersion,
	vote.KindWanted:    hasStream | hasNumber | hasWho | hasText | hasUrge,
	vote.KindShow:      hasNonce | hasEnd | hasPermits | hasGap | hasSights,
	vote.KindNews:      hasNonce | hasLife | hasSeq | hasGap | hasSights,
	vote.KindPassed:    hasNonce | hasCount,
	vote.KindUnknown:   hasStream,
	vote.KindAck: hasStream | hasSent | hasLife | hasGeneration | hasProcessed | hasPushed | hasCount | hasHash |
		hasQuiet | hasWall | hasClock | hasElected,
	vote.KindProbe:   hasStream,
	vote.KindRefused: hasStream | hasReason | hasElected,
	vote.KindTell:    hasNonce | hasToken | hasCounting,

	vote.KindElectorate: hasElected | hasElecting,
	vote.KindPoll:       hasNonce | hasElected,
	vote.KindReport:     hasNonce | hasElected | hasToken | hasCounting | hasElecting,
	vote.KindPrepare:    hasVersion | hasElecting,
	vote.KindPrepared:   hasVersion | hasElecting,
	vote.KindAccept:     hasVersion | hasElecting,
	vote.KindAccepted:   hasVersion | hasElecting,
}

// lastAnswer is what the last chunk of an answer carries on top.
const lastAnswer = hasSent | hasLife | hasGeneration | hasQuiet | hasWall | hasElected | hasDir

// layout returns the fields of a kind; end is whether the message is the last chunk.
func layout(k vote.Kind, end bool) fields {
	has := layouts[k]
	if k == vote.KindAnswer && end {
		has |= lastAnswer
	}
	return has
}

// words is the length of the array that carries these fields and, before them, the kind.
func (f fields) words() int { return 1 + bits.OnesCount64(uint64(f)) }

// known reports whether this version can carry the kind: every kind of ours has a field.
func known(k vote.Kind) bool { return int(k) < len(layouts) && layouts[k] != 0 }

// Append encodes m and appends it to dst, which the caller owns before and after. It allocates only to grow dst. A message
// beyond the limits of package vote gives an error that wraps [ErrMalformed], and dst as it was. Fields that m's kind
// doesn't use are not carried.
func Append(dst []byte, m *vote.Message) ([]byte, error) {
	if !known(m.Kind) {
		return dst, fmt.Errorf("%w: kind %d can't be sent", ErrMalformed, m.Kind)
	}
	has := layout(m.Kind, m.End)
	if err := check(m, has); err != nil {
		return dst, err
	}
	return appendFields(dst, m, has), nil
}

// check holds an outgoing message to the limits that the receiver enforces, so that a mistake of ours is an error here and not
// a broken connection there.
func check(m *vote.Message, has fields) error {
	switch {
	case has&hasKey != 0 && !validKey(m.Key) && (has&hasPrefix == 0 || !m.Prefix || m.Key != ""):
		return badKey(m.Key)
	case m.Bid > vote.MaxToken && has&hasBid != 0, m.Token > vote.MaxToken && has&hasToken != 0:
		return fmt.Errorf("%w: token above 63 bits", ErrMalformed)
	case has&hasReason != 0 && !m.Reason.Valid():
		return fmt.Errorf("%w: reason %d is not known", ErrMalformed, m.Reason)
	case has&hasTTL != 0 && m.TTL < 0, has&hasRTT != 0 && m.RTT < 0, has&hasQuiet != 0 && m.Quiet < 0:
		return fmt.Errorf("%w: negative duration", ErrMalformed)
	case has&hasSlot != 0 && m.Slot > vote.MaxPermits, has&hasPermits != 0 && m.Permits > vote.MaxPermits:
		return fmt.Errorf("%w: more than %d permits", ErrMalformed, vote.MaxPermits)
	case has&hasValue != 0 && len(m.Value) > vote.MaxValueLen:
		return fmt.Errorf("%w: a value of %d bytes, more than %d", ErrMalformed, len(m.Value), vote.MaxValueLen)
	case has&hasText != 0 && (len(m.Text) > vote.MaxTextLen || !utf8.ValidString(m.Text)):
		return fmt.Errorf("%w: a text of %d bytes; it must be UTF-8 of at most %d", ErrMalformed, len(m.Text), vote.MaxTextLen)
	case has&hasWho != 0 && !validName(m.Who):
		return fmt.Errorf("%w: a node name of %d bytes", ErrMalformed, len(m.Who))
	case has&hasWish != 0:
		return checkWish(&m.Wish)
	case has&(hasRequests|hasVotes) != 0:
		return checkEntries(m.Entries, has)
	case has&hasSights != 0:
		return checkSights(m.Sights)
	case has&hasElecting != 0:
		return checkElecting(m.Electing)
	}
	return nil
}

func checkWish(w *vote.Wish) error {
	switch {
	case !validKey(w.Key):
		return badKey(w.Key)
	case !w.Mode.Valid():
		return fmt.Errorf("%w: mode %d is not spoken", ErrMalformed, w.Mode)
	case w.Permits > vote.MaxPermits, (w.Mode == vote.Permit) != (w.Permits > 0):
		return fmt.Errorf("%w: %d permits with mode %v", ErrMalformed, w.Permits, w.Mode)
	case w.Length < 0, w.Delay < 0, w.MinHold < 0:
		return fmt.Errorf("%w: negative duration", ErrMalformed)
	}
	return nil
}

func checkEntries(entries []vote.Entry, has fields) error {
	if len(entries) > vote.MaxEntries {
		return fmt.Errorf("%w: %d entries in one chunk, at most %d fit", ErrMalformed, len(entries), vote.MaxEntries)
	}
	for i := range entries {
		e := &entries[i]
		if e.Token > vote.MaxToken || e.Bid > vote.MaxToken && has&hasVotes == 0 {
			return fmt.Errorf("%w: token above 63 bits", ErrMalformed)
		}
		if e.Slot > vote.MaxPermits {
			return fmt.Errorf("%w: more than %d permits", ErrMalformed, vote.MaxPermits)
		}
		if has&hasVotes != 0 {
			continue
		}
		if err := checkWish(&e.Wish); err != nil {
			return err
		}
	}
	return nil
}

func checkSights(sights []vote.Sight) error {
	if len(sights) > vote.MaxSights {
		return fmt.Errorf("%w: %d sights in one chunk, at most %d fit", ErrMalformed, len(sights), vote.MaxSights)
	}
	for i := range sights {
		s := &sights[i]
		switch {
		case !s.What.Valid():
			return fmt.Errorf("%w: %d is nothing that is seen", ErrMalformed, s.What)
		case !validKey(s.Key):
			return badKey(s.Key)
		case !validName(s.Owner.Node):
			return fmt.Errorf("%w: a node name of %d bytes", ErrMalformed, len(s.Owner.Node))
		case !s.Mode.Valid():
			return fmt.Errorf("%w: mode %d is not spoken", ErrMalformed, s.Mode)
		case s.Permits > vote.MaxPermits, s.Slot > vote.MaxPermits:
			return fmt.Errorf("%w: more than %d permits", ErrMalformed, vote.MaxPermits)
		case s.Token > vote.MaxToken:
			return fmt.Errorf("%w: token above 63 bits", ErrMalformed)
		case s.For < 0, s.Left < 0:
			return fmt.Errorf("%w: negative duration", ErrMalformed)
		case len(s.Value) > vote.MaxValueLen:
			return fmt.Errorf("%w: a value of %d bytes, more than %d", ErrMalformed, len(s.Value), vote.MaxValueLen)
		}
	}
	return nil
}

func validKey(k vote.Key) bool {
	return len(k) > 0 && len(k) <= vote.MaxKeyLen && utf8.ValidString(string(k))
}

func badKey(k vote.Key) error {
	return fmt.Errorf("%w: a key of %d bytes; it must be UTF-8 of 1 to %d bytes", ErrMalformed, len(k), vote.MaxKeyLen)
}
