package transport

import (
	"encoding/binary"
	"math"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// appendFields writes the array: the kind, then the fields in the order of their bits.
func appendFields(b []byte, m *vote.Message, has fields) []byte {
	b = appendArray(b, has.words())
	b = appendUint(b, uint64(m.Kind))
	if has&hasStream != 0 {
		b = appendUint(b, uint64(m.Stream))
	}
	if has&hasEnd != 0 {
		b = appendBool(b, m.End)
	}
	if has&hasNumber != 0 {
		b = appendUint(b, uint64(m.Number))
	}
	if has&hasSerial != 0 {
		b = appendUint(b, uint64(m.Serial))
	}
	if has&hasKey != 0 {
		b = appendString(b, string(m.Key))
	}
	if has&hasTime != 0 {
		b = appendInt(b, int64(m.Time))
	}
	if has&hasTokenHint != 0 {
		b = appendUint(b, uint64(m.TokenHint))
	}
	if has&hasToken != 0 {
		b = appendUint(b, uint64(m.Token))
	}
	if has&hasSpec != 0 {
		b = appendSpec(b, &m.Spec)
	}
	if has&hasSlot != 0 {
		b = appendUint(b, uint64(m.Slot))
	}
	if has&hasWon != 0 {
		b = appendBool(b, m.Won)
	}
	if has&hasLost != 0 {
		b = appendBool(b, m.Lost)
	}
	if has&someMarks != 0 {
		if has&hasPermits != 0 {
			b = appendUint(b, uint64(m.Permits))
		}
		if has&hasPrefix != 0 {
			b = appendBool(b, m.Prefix)
		}
		if has&hasRevoke != 0 {
			b = appendBool(b, m.Revoke)
		}
		if has&hasGap != 0 {
			b = appendBool(b, m.Gap)
		}
	}
	if has&someTexts != 0 {
		if has&hasWho != 0 {
			b = appendString(b, string(m.Who))
		}
		if has&hasText != 0 {
			b = appendString(b, m.Text)
		}
		if has&hasVersion != 0 {
			b = appendUint(b, m.Version)
		}
		if has&hasSeq != 0 {
			b = appendUint(b, m.Seq)
		}
		if has&hasValue != 0 {
			b = appendBytes(b, m.Value)
		}
		if has&hasReason != 0 {
			b = appendUint(b, uint64(m.Reason))
		}
		if has&hasNonce != 0 {
			b = appendUint(b, m.Nonce)
		}
		if has&hasCounting != 0 {
			b = appendBool(b, m.Counting)
		}
	}
	if has&someTimes != 0 {
		if has&hasTTL != 0 {
			b = appendUint(b, uint64(m.TTL))
		}
		if has&hasRTT != 0 {
			b = appendUint(b, uint64(m.RTT))
		}
		if has&hasSent != 0 {
			b = appendInt(b, int64(m.Sent))
		}
	}
	if has&someState != 0 {
		if has&hasIncarnation != 0 {
			b = appendUint(b, uint64(m.Incarnation))
		}
		if has&hasGeneration != 0 {
			b = appendUint(b, uint64(m.Generation))
		}
		if has&hasReceived != 0 {
			b = appendUint(b, m.Received)
		}
		if has&hasProcessed != 0 {
			b = appendUint(b, m.Processed)
		}
		if has&hasPushed != 0 {
			b = appendUint(b, m.Pushed)
		}
		if has&hasCount != 0 {
			b = appendUint(b, m.Count)
		}
		if has&hasHash != 0 {
			b = appendUint(b, m.Hash)
		}
		if has&hasQuiet != 0 {
			b = appendUint(b, uint64(m.Quiet))
		}
		if has&hasWall != 0 {
			b = appendInt(b, int64(m.Wall))
		}
		if has&hasClock != 0 {
			b = appendInt(b, int64(m.Clock))
		}
	}
	if has&someLists != 0 {
		if has&hasRequests != 0 {
			b = appendArray(b, len(m.Entries))
			for i := range m.Entries {
				b = appendRequest(b, &m.Entries[i])
			}
		}
		if has&hasVotes != 0 {
			b = appendArray(b, len(m.Entries))
			for i := range m.Entries {
				b = appendVote(b, &m.Entries[i])
			}
		}
		if has&hasViews != 0 {
			b = appendArray(b, len(m.Views))
			for i := range m.Views {
				b = appendView(b, &m.Views[i])
			}
		}
	}
	if has&hasEpoch != 0 {
		b = appendUint(b, m.Epoch)
	}
	if has&hasDir != 0 {
		b = appendUint(b, uint64(m.Dir))
	}
	if has&hasConsensus != 0 {
		b = appendConsensus(b, m.Consensus)
	}
	if has&hasHeard != 0 {
		b = appendInt(b, int64(m.Heard))
	}
	if has&hasVoid != 0 {
		b = appendBool(b, m.Void)
	}
	return b
}

func appendSpec(b []byte, w *vote.Spec) []byte {
	words := specFields
	if w.EndsAfter == 0 {
		words--
	}
	b = appendArray(b, words)
	b = appendString(b, string(w.Key))
	b = appendUint(b, uint64(w.Mode))
	b = appendBool(b, w.Try)
	b = appendUint(b, uint64(w.Permits))
	b = appendUint(b, uint64(w.Beside))
	b = appendUint(b, uint64(w.Length))
	b = appendUint(b, uint64(w.Delay))
	b = appendUint(b, uint64(w.MinHold))
	if w.EndsAfter == 0 {
		return b
	}
	return appendUint(b, uint64(w.EndsAfter))
}

func appendRequest(b []byte, e *vote.Entry) []byte {
	b = appendArray(b, requestFields)
	b = appendSpec(b, &e.Spec)
	b = appendUint(b, uint64(e.Number))
	b = appendInt(b, int64(e.Time))
	b = appendUint(b, uint64(e.TokenHint))
	b = appendUint(b, uint64(e.Serial))
	b = appendUint(b, uint64(e.Yielded))
	b = appendUint(b, uint64(e.Slot))
	return appendUint(b, uint64(e.Token))
}

func appendVote(b []byte, e *vote.Entry) []byte {
	b = appendArray(b, voteFields)
	b = appendUint(b, uint64(e.Number))
	b = appendUint(b, uint64(e.Serial))
	b = appendUint(b, uint64(e.Slot))
	return appendUint(b, uint64(e.Token))
}

func appendView(b []byte, s *vote.View) []byte {
	b = appendArray(b, viewFields)
	b = appendUint(b, uint64(s.State))
	b = appendString(b, string(s.Key))
	b = appendString(b, string(s.Owner.Node))
	b = appendUint(b, uint64(s.Owner.Incarnation))
	b = appendUint(b, uint64(s.Number))
	b = appendUint(b, uint64(s.Mode))
	b = appendUint(b, uint64(s.Permits))
	b = appendUint(b, uint64(s.Slot))
	b = appendBool(b, s.Try)
	b = appendUint(b, uint64(s.Beside))
	b = appendUint(b, uint64(s.Token))
	b = appendInt(b, int64(s.Time))
	b = appendUint(b, uint64(s.For))
	b = appendUint(b, uint64(s.Left))
	b = appendUint(b, s.Version)
	return appendBytes(b, s.Value)
}

// The elements of msgpack that we use, each in its shortest form.

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v <= math.MaxInt8:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, msgpcode.Uint8, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, msgpcode.Uint16), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, msgpcode.Uint32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, msgpcode.Uint64), v)
}

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, msgpcode.Int8, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, msgpcode.Int16), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, msgpcode.Int32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, msgpcode.Int64), uint64(v))
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, msgpcode.True)
	}
	return append(b, msgpcode.False)
}

// appendString expects at most 65,535 bytes; every string of the protocol has a lower limit.
func appendString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, msgpcode.FixedStrLow|byte(n))
	case n <= math.MaxUint8:
		b = append(b, msgpcode.Str8, byte(n))
	default:
		b = binary.BigEndian.AppendUint16(append(b, msgpcode.Str16), uint16(n))
	}
	return append(b, s...)
}

// appendBytes expects at most 65,535 bytes, too.
func appendBytes(b, v []byte) []byte {
	switch n := len(v); {
	case n <= math.MaxUint8:
		b = append(b, msgpcode.Bin8, byte(n))
	default:
		b = binary.BigEndian.AppendUint16(append(b, msgpcode.Bin16), uint16(n))
	}
	return append(b, v...)
}

// appendArray writes the header of an array of at most 65,535 elements.
func appendArray(b []byte, n int) []byte {
	if n < 16 {
		return append(b, msgpcode.FixedArrayLow|byte(n))
	}
	return binary.BigEndian.AppendUint16(append(b, msgpcode.Array16), uint16(n))
}
