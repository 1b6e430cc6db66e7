package transport

import (
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// errMalformed marks an error about bytes that aren't a message of this wire version, or about a
// message that can't be encoded. Disconnect a peer that sends malformed bytes; retrying doesn't
// help.
var errMalformed = errors.New("malformed message")

// fields is the set of fields encoded for a kind of message. Encoder and decoder both process the
// fields in the order of the bits below, so the two can't disagree about the order.
type fields uint64

const (
	hasStream fields = 1 << iota
	hasEnd
	hasNumber
	hasSerial
	hasKey
	hasTime
	hasTokenHint
	hasToken
	hasSpec
	hasSlot
	hasWon
	hasLost
	hasPermits
	hasPrefix
	hasRevoke
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
	hasIncarnation
	hasGeneration
	hasReceived
	hasProcessed
	hasPushed
	hasCount
	hasHash
	hasQuiet
	hasWall
	hasClock
	hasRequests // Entries, each with all that a sync (KindSync) says of a request
	hasVotes    // Entries, each with a vote of an answer: Number, Serial, Slot, Token
	hasViews
	hasEpoch
	hasDir
	hasConsensus
	hasHeard
	hasVoid
)

// Groups of adjacent fields, absent from most kinds: testing a group takes one comparison instead
// of many.
const (
	someMarks = hasPermits | hasPrefix | hasRevoke | hasGap
	someTexts = hasWho | hasText | hasVersion | hasSeq | hasValue | hasReason | hasNonce | hasCounting
	someTimes = hasTTL | hasRTT | hasSent
	someState = hasIncarnation | hasGeneration | hasReceived | hasProcessed | hasPushed | hasCount | hasHash | hasQuiet | hasWall | hasClock
	someLists = hasRequests | hasVotes | hasViews
)

const (
	specFields    = 9  // elements of a spec; the last, Ends, is encoded only where set
	requestFields = 8  // elements of an entry of a sync
	voteFields    = 4  // elements of an entry of an answer
	viewFields    = 16 // elements of a view entry

	ballotFields  = 2
	electorFields = 2
	// Of the last three elements, Most is encoded only where set, or MaxTTL is: nodes of before
	// 2026-11-22 leave Most out. MaxTTL and OldMaxTTL are encoded only where set, from wire version
	// 2 on.
	electorateFields = 8
	// Of the last two elements, Contacts is encoded only where set, or MaxTTL is: nodes of before
	// 2026-11-22 leave Contacts out. MaxTTL is encoded from wire version 2 on.
	consensusFields = 12
)

// layouts lists the fields of each kind: the comments of vote.Kind as a table.
var layouts = [...]fields{
	vote.KindOpen:             hasStream | hasTTL | hasRTT | hasSent | hasEpoch,
	vote.KindSync:             hasStream | hasEnd | hasRequests,
	vote.KindRequest:          hasStream | hasNumber | hasSpec | hasTime | hasTokenHint,
	vote.KindConfirm:          hasStream | hasNumber | hasSerial | hasToken | hasSlot | hasWon,
	vote.KindYield:            hasStream | hasNumber | hasSerial | hasSlot,
	vote.KindRelease:          hasStream | hasNumber | hasTokenHint | hasLost,
	vote.KindExtend:           hasStream | hasNumber | hasSerial | hasTTL | hasSent,
	vote.KindDowngrade:        hasStream | hasNumber,
	vote.KindSetValue:         hasStream | hasNumber | hasVersion | hasValue,
	vote.KindRevokeForRequest: hasStream | hasNumber | hasText,
	vote.KindQuery:            hasNonce | hasKey | hasPrefix | hasValue | hasCount,
	vote.KindWatch:            hasNonce | hasEnd | hasKey | hasPrefix | hasIncarnation | hasSeq,
	vote.KindRevoke:           hasNonce | hasKey | hasToken | hasText,
	vote.KindRefresh:          hasStream | hasSent | hasReceived | hasRTT | hasEpoch,
	vote.KindProbeReply:       hasStream,
	vote.KindTokenQuery:       hasNonce,

	vote.KindAnswer:          hasStream | hasEnd | hasVotes,
	vote.KindPromise:         hasStream | hasNumber | hasSerial | hasToken | hasSlot | hasRevoke | hasEpoch,
	vote.KindConfirmed:       hasStream | hasNumber | hasSerial | hasToken,
	vote.KindInquire:         hasStream | hasNumber | hasSerial,
	vote.KindHeld:            hasStream | hasNumber | hasToken,
	vote.KindReleased:        hasStream | hasNumber,
	vote.KindBusy:            hasStream | hasNumber,
	vote.KindPermitsDiffer:   hasStream | hasNumber | hasPermits,
	vote.KindClash:           hasStream | hasNumber,
	vote.KindExtended:        hasStream | hasNumber | hasSerial | hasSent | hasEpoch,
	vote.KindLapsed:          hasStream | hasNumber | hasSerial,
	vote.KindValueStored:     hasStream | hasNumber | hasVersion,
	vote.KindContended:       hasStream | hasNumber | hasToken | hasWho | hasText | hasRevoke,
	vote.KindQueryResult:     hasNonce | hasEnd | hasPermits | hasGap | hasTTL | hasViews,
	vote.KindEvents:          hasNonce | hasIncarnation | hasSeq | hasGap | hasViews,
	vote.KindRevokeForwarded: hasNonce | hasCount,
	vote.KindUnknown:         hasStream,
	vote.KindAck: hasStream | hasSent | hasIncarnation | hasGeneration | hasProcessed | hasPushed | hasCount | hasHash |
		hasQuiet | hasWall | hasClock | hasEpoch,
	vote.KindProbe:       hasStream,
	vote.KindRefused:     hasStream | hasReason | hasEpoch,
	vote.KindTokenAnswer: hasNonce | hasToken | hasCounting,

	vote.KindElectorate: hasEpoch | hasConsensus,
	vote.KindPoll:       hasNonce | hasEpoch,
	vote.KindReport:     hasNonce | hasEpoch | hasToken | hasCounting | hasConsensus,
	vote.KindPrepare:    hasVersion | hasConsensus,
	vote.KindPrepared:   hasVersion | hasConsensus,
	vote.KindAccept:     hasVersion | hasConsensus,
	vote.KindAccepted:   hasVersion | hasConsensus,
}

// lastAnswer is the set of additional fields in the last chunk of an answer.
const lastAnswer = hasSent | hasIncarnation | hasGeneration | hasQuiet | hasWall | hasEpoch | hasDir

// late lists the fields appended to some kinds later. They are encoded only when at least one is
// set. So this build reads frames without late fields, and an older build reads frames of this
// build in which no late field is set. The length of the array tells whether late fields are
// present.
var late = [...]fields{
	vote.KindOpen:    hasHeard | hasVoid,
	vote.KindRefresh: hasHeard | hasVoid,
	vote.KindAnswer:  hasVoid,
	vote.KindAck:     hasVoid,
}

// lateOf returns the late fields of a kind; end is whether the message is the last chunk.
func lateOf(k vote.Kind, end bool) fields {
	if int(k) >= len(late) || k == vote.KindAnswer && !end {
		return 0
	}
	return late[k]
}

// layout returns the fields that a kind always carries; end is whether the message is the last
// chunk.
func layout(k vote.Kind, end bool) fields {
	has := layouts[k]
	if k == vote.KindAnswer && end {
		has |= lastAnswer
	}
	return has
}

// words is the length of the array of the kind and these fields.
func (f fields) words() int { return 1 + bits.OnesCount64(uint64(f)) }

// known reports whether this version can encode the kind. Every kind has at least one field.
func known(k vote.Kind) bool { return int(k) < len(layouts) && layouts[k] != 0 }

// Append appends the encoding of m to dst, owned by the caller before and after. Append allocates
// only to grow dst. For a message beyond the limits of package vote, Append returns an error
// wrapping [errMalformed], and dst unchanged. Fields unused by m's kind are not encoded.
func Append(dst []byte, m *vote.Message) ([]byte, error) {
	if !known(m.Kind) {
		return dst, fmt.Errorf("%w: kind %d can't be sent", errMalformed, m.Kind)
	}
	has := layout(m.Kind, m.End)
	if late := lateOf(m.Kind, m.End); m.Void || m.Heard != 0 && late&hasHeard != 0 {
		has |= late
	}
	if err := check(m, has); err != nil {
		return dst, err
	}
	return appendFields(dst, m, has), nil
}

// check applies the receiver's limits to an outgoing message, so that a bug on this side is an
// error here instead of a broken connection there.
func check(m *vote.Message, has fields) error {
	switch {
	case has&hasKey != 0 && !validKey(m.Key) && (has&hasPrefix == 0 || !m.Prefix || m.Key != ""):
		return badKey(m.Key)
	case m.TokenHint > vote.MaxToken && has&hasTokenHint != 0, m.Token > vote.MaxToken && has&hasToken != 0:
		return fmt.Errorf("%w: token above 63 bits", errMalformed)
	case has&hasReason != 0 && !m.Reason.Valid():
		return fmt.Errorf("%w: reason %d is not known", errMalformed, m.Reason)
	case has&hasTTL != 0 && m.TTL < 0, has&hasRTT != 0 && m.RTT < 0, has&hasQuiet != 0 && m.Quiet < 0:
		return fmt.Errorf("%w: negative duration", errMalformed)
	case has&hasSlot != 0 && m.Slot > vote.MaxPermits, has&hasPermits != 0 && m.Permits > vote.MaxPermits:
		return fmt.Errorf("%w: more than %d permits", errMalformed, vote.MaxPermits)
	case has&hasValue != 0 && len(m.Value) > vote.MaxValueLen:
		return fmt.Errorf("%w: a value of %d bytes, more than %d", errMalformed, len(m.Value), vote.MaxValueLen)
	case has&hasText != 0 && (len(m.Text) > vote.MaxTextLen || !utf8.ValidString(m.Text)):
		return fmt.Errorf("%w: a text of %d bytes; it must be UTF-8 of at most %d", errMalformed, len(m.Text), vote.MaxTextLen)
	case has&hasWho != 0 && !validName(m.Who):
		return fmt.Errorf("%w: a node name of %d bytes", errMalformed, len(m.Who))
	case has&hasSpec != 0:
		return checkSpec(&m.Spec)
	case has&(hasRequests|hasVotes) != 0:
		return checkEntries(m.Entries, has)
	case has&hasViews != 0:
		return checkViews(m.Views)
	case has&hasConsensus != 0:
		return checkConsensus(m.Consensus)
	}
	return nil
}

func checkSpec(w *vote.Spec) error {
	switch {
	case !validKey(w.Key):
		return badKey(w.Key)
	case !w.Mode.Valid():
		return fmt.Errorf("%w: unknown mode %d", errMalformed, w.Mode)
	case w.Permits > vote.MaxPermits, (w.Mode == vote.Permit) != (w.Permits > 0):
		return fmt.Errorf("%w: %d permits with mode %v", errMalformed, w.Permits, w.Mode)
	case w.Length < 0, w.Delay < 0, w.MinHold < 0, w.EndsAfter < 0:
		return fmt.Errorf("%w: negative duration", errMalformed)
	}
	return nil
}

func checkEntries(entries []vote.Entry, has fields) error {
	if len(entries) > vote.MaxEntries {
		return fmt.Errorf("%w: %d entries in one chunk, at most %d fit", errMalformed, len(entries), vote.MaxEntries)
	}
	for i := range entries {
		e := &entries[i]
		if e.Token > vote.MaxToken || e.TokenHint > vote.MaxToken && has&hasVotes == 0 {
			return fmt.Errorf("%w: token above 63 bits", errMalformed)
		}
		if e.Slot > vote.MaxPermits {
			return fmt.Errorf("%w: more than %d permits", errMalformed, vote.MaxPermits)
		}
		if has&hasVotes != 0 {
			continue
		}
		if err := checkSpec(&e.Spec); err != nil {
			return err
		}
	}
	return nil
}

func checkViews(views []vote.View) error {
	if len(views) > vote.MaxViews {
		return fmt.Errorf("%w: %d view entries in one chunk, at most %d fit", errMalformed,
			len(views), vote.MaxViews)
	}
	for i := range views {
		s := &views[i]
		switch {
		case !s.State.Valid():
			return fmt.Errorf("%w: unknown state %d of a view entry", errMalformed, s.State)
		case !validKey(s.Key):
			return badKey(s.Key)
		case !validName(s.Owner.Node):
			return fmt.Errorf("%w: a node name of %d bytes", errMalformed, len(s.Owner.Node))
		case !s.Mode.Valid():
			return fmt.Errorf("%w: unknown mode %d", errMalformed, s.Mode)
		case s.Permits > vote.MaxPermits, s.Slot > vote.MaxPermits:
			return fmt.Errorf("%w: more than %d permits", errMalformed, vote.MaxPermits)
		case s.Token > vote.MaxToken:
			return fmt.Errorf("%w: token above 63 bits", errMalformed)
		case s.For < 0, s.Left < 0:
			return fmt.Errorf("%w: negative duration", errMalformed)
		case len(s.Value) > vote.MaxValueLen:
			return fmt.Errorf("%w: a value of %d bytes, more than %d", errMalformed, len(s.Value), vote.MaxValueLen)
		}
	}
	return nil
}

func validKey(k vote.Key) bool {
	return len(k) > 0 && len(k) <= vote.MaxKeyLen && utf8.ValidString(string(k))
}

func badKey(k vote.Key) error {
	return fmt.Errorf("%w: a key of %d bytes; it must be UTF-8 of 1 to %d bytes", errMalformed, len(k), vote.MaxKeyLen)
}
