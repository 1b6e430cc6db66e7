package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// parser decodes one frame, element by element. The element types are few and simple, and every
// message consists of a dozen elements, so the decoder is written by hand. The tests compare each
// element with the msgpack library's decoding of the same bytes.
//
// The library is more lenient than a network protocol can afford: it accepts nil for a number,
// wraps negative numbers around, and trusts any length. This parser compares each length with its
// limit and with the bytes left before any allocation. After the first error every element decodes
// to zero; so calling code stays linear and checks the error once before allocating and once at the
// end.
type parser struct {
	frame []byte
	// at is the offset of the next element; the frame's end after an error, so that no more is
	// read.
	at  int
	err error
}

// parse returns a parser for the frame. The parser stays on the caller's stack as long as no
// element is read through a function value or an interface.
func parse(frame []byte) *parser { return &parser{frame: frame} }

// fail records the first error.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
	}
	p.at = len(p.frame)
}

// left is how many unread bytes there are.
func (p *parser) left() int { return len(p.frame) - p.at }

// code returns the first byte of the next element without consuming the byte.
func (p *parser) code() (c byte, ok bool) {
	if p.at < len(p.frame) {
		return p.frame[p.at], true
	}
	p.short()
	return 0, false
}

func (p *parser) short() { p.fail("it ends too early") }

// wrong fails because the next element has the wrong type or is truncated.
func (p *parser) wrong(c byte, what string) {
	p.fail("byte %#x where %s belongs, or it ends within", c, what)
}

// small reads a one-byte number, the most frequent element, if the next element is one. small is
// short enough to be inlined.
func (p *parser) small() (v byte, ok bool) {
	if p.at < len(p.frame) {
		if v = p.frame[p.at]; v <= msgpcode.PosFixedNumHigh {
			p.at++
			return v, true
		}
	}
	return 0, false
}

func (p *parser) uint() uint64 {
	if v, ok := p.small(); ok {
		return uint64(v)
	}
	return p.long()
}

// long reads an unsigned number of several bytes.
func (p *parser) long() uint64 {
	c, ok := p.code()
	if !ok {
		return 0
	}
	switch b := p.frame[p.at+1:]; {
	case c == msgpcode.Uint64 && len(b) >= 8:
		p.at += 9
		return binary.BigEndian.Uint64(b)
	case c == msgpcode.Uint32 && len(b) >= 4:
		p.at += 5
		return uint64(binary.BigEndian.Uint32(b))
	case c == msgpcode.Uint16 && len(b) >= 2:
		p.at += 3
		return uint64(binary.BigEndian.Uint16(b))
	case c == msgpcode.Uint8 && len(b) >= 1:
		p.at += 2
		return uint64(b[0])
	}
	p.wrong(c, "an unsigned number")
	return 0
}

func (p *parser) int() int64 {
	if v, ok := p.small(); ok {
		return int64(v)
	}
	c, ok := p.code()
	if !ok {
		return 0
	}
	if c >= msgpcode.Uint8 && c <= msgpcode.Uint64 {
		v := p.long()
		if v > math.MaxInt64 {
			p.fail("a number beyond 63 bits")
			return 0
		}
		return int64(v)
	}
	switch b := p.frame[p.at+1:]; {
	case c >= msgpcode.NegFixedNumLow:
		p.at++
		return int64(int8(c))
	case c == msgpcode.Int64 && len(b) >= 8:
		p.at += 9
		return int64(binary.BigEndian.Uint64(b))
	case c == msgpcode.Int32 && len(b) >= 4:
		p.at += 5
		return int64(int32(binary.BigEndian.Uint32(b)))
	case c == msgpcode.Int16 && len(b) >= 2:
		p.at += 3
		return int64(int16(binary.BigEndian.Uint16(b)))
	case c == msgpcode.Int8 && len(b) >= 1:
		p.at += 2
		return int64(int8(b[0]))
	}
	p.wrong(c, "a number")
	return 0
}

// upTo reads an unsigned number of at most limit.
func (p *parser) upTo(limit uint64, what string) uint64 {
	v := p.uint()
	if v > limit {
		p.fail("%s %d is above %d", what, v, limit)
		return 0
	}
	return v
}

func (p *parser) duration() time.Duration {
	return time.Duration(p.upTo(math.MaxInt64, "duration"))
}

func (p *parser) token() vote.Token { return vote.Token(p.upTo(uint64(vote.MaxToken), "token")) }

func (p *parser) mode() vote.Mode {
	m := vote.Mode(p.upTo(math.MaxUint8, "mode"))
	if p.err == nil && !m.Valid() {
		p.fail("unknown mode %d", m)
	}
	return m
}

func (p *parser) slot() vote.Slot { return vote.Slot(p.upTo(vote.MaxPermits, "slot")) }

func (p *parser) reason() vote.Reason {
	r := vote.Reason(p.upTo(math.MaxUint8, "reason"))
	if !r.Valid() {
		p.fail("reason %d is not known", r)
		return 0
	}
	return r
}

func (p *parser) bool() bool {
	c, ok := p.code()
	switch {
	case !ok:
		return false
	case c != msgpcode.True && c != msgpcode.False:
		p.wrong(c, "true or false")
		return false
	}
	p.at++
	return c == msgpcode.True
}

// string reads UTF-8 of least to most bytes, copied out of the frame: the only allocation for an
// element.
func (p *parser) string(least, most int, what string) string {
	c, ok := p.code()
	if !ok {
		return ""
	}
	n := 0
	switch b := p.frame[p.at+1:]; {
	case msgpcode.IsFixedString(c):
		n = int(c & msgpcode.FixedStrMask)
		p.at++
	case c == msgpcode.Str8 && len(b) >= 1:
		n = int(b[0])
		p.at += 2
	case c == msgpcode.Str16 && len(b) >= 2:
		n = int(binary.BigEndian.Uint16(b))
		p.at += 3
	default:
		p.wrong(c, "a string")
	}
	s := p.run(n, least, most, what)
	if !utf8.Valid(s) {
		p.fail("%s is not UTF-8", what)
		return ""
	}
	return string(s)
}

// bytes reads at most most bytes, copied out of the frame; nil if there are none.
func (p *parser) bytes(most int) []byte {
	c, ok := p.code()
	if !ok {
		return nil
	}
	n := 0
	switch b := p.frame[p.at+1:]; {
	case c == msgpcode.Bin8 && len(b) >= 1:
		n = int(b[0])
		p.at += 2
	case c == msgpcode.Bin16 && len(b) >= 2:
		n = int(binary.BigEndian.Uint16(b))
		p.at += 3
	default:
		p.wrong(c, "a run of bytes")
	}
	return bytes.Clone(p.run(n, 0, most, "value"))
}

// run reads the n bytes of a string or byte array, still owned by the frame; nil if there are none.
func (p *parser) run(n, least, most int, what string) []byte {
	switch {
	case p.err != nil:
		return nil
	case n < least || n > most:
		p.fail("%s of %d bytes; %d to %d are allowed", what, n, least, most)
		return nil
	case n > p.left():
		p.fail("it ends within the %s", what)
		return nil
	case n == 0:
		return nil
	}
	s := p.frame[p.at : p.at+n]
	p.at += n
	return s
}

func (p *parser) key() vote.Key { return vote.Key(p.string(1, vote.MaxKeyLen, "key")) }

func (p *parser) name() vote.NodeID { return vote.NodeID(p.string(1, vote.MaxNameLen, "node name")) }

// array reads the header of an array of at most limit elements. Each element takes at least one
// byte, so the number of bytes left is a limit too.
func (p *parser) array(limit int) int {
	c, ok := p.code()
	if !ok {
		return 0
	}
	var n int
	switch b := p.frame[p.at+1:]; {
	case msgpcode.IsFixedArray(c):
		n = int(c & msgpcode.FixedArrayMask)
		p.at++
	case c == msgpcode.Array16 && len(b) >= 2:
		n = int(binary.BigEndian.Uint16(b))
		p.at += 3
	default:
		p.wrong(c, "an array")
		return 0
	}
	if n > limit || n > p.left() {
		p.fail("an array of %d elements; at most %d fit", n, min(limit, p.left()))
		return 0
	}
	return n
}

// exactly reads the header of an array that must have n elements.
func (p *parser) exactly(n int) {
	if got := p.array(n); p.err == nil && got != n {
		p.fail("an array of %d elements where %d belong", got, n)
	}
}

// lastMayLack reads the header of an array of n elements, the last few of them unknown to earlier
// versions.
func (p *parser) lastMayLack(n, few int) int {
	got := p.array(n)
	if p.err == nil && got < n-few {
		p.fail("an array of %d elements where %d belong", got, n)
	}
	return got
}

// end returns the error; bytes left over are an error, too.
func (p *parser) end() error {
	if p.err == nil && p.left() > 0 {
		p.fail("%d bytes too many", p.left())
	}
	return p.err
}
