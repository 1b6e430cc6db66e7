package transport

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// parser reads one frame word by word with the msgpack decoder's primitives.
//
// The library is generous where we must not be: it takes nil for a number, wraps negative numbers round, and believes any
// length. So the parser looks at each word's first byte before the library does, and compares each length with its limit and
// with the bytes left before anything is allocated. After the first error every word is zero; so the callers' code stays
// straight and asks for the error once, before it allocates and at the end.
type parser struct {
	frame []byte
	rest  bytes.Reader
	dec   *msgpack.Decoder
	err   error
}

// parsers are pooled, since a decoder and its reader would cost three allocations a frame.
var parsers = sync.Pool{New: func() any {
	p := new(parser)
	p.dec = msgpack.NewDecoder(&p.rest)
	return p
}}

// parse lends a parser for the frame. The caller gives it back with done, and keeps nothing of it.
func parse(frame []byte) *parser {
	p := parsers.Get().(*parser)
	p.frame, p.err = frame, nil
	p.rest.Reset(frame)
	return p
}

// done gives the parser back.
func (p *parser) done() {
	p.frame, p.err = nil, nil
	p.rest.Reset(nil)
	parsers.Put(p)
}

// fail notes the first error.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
}

// code returns the first byte of the next word without reading it.
func (p *parser) code() (byte, bool) {
	if p.err != nil {
		return 0, false
	}
	at := len(p.frame) - p.rest.Len()
	if at >= len(p.frame) {
		p.fail("it ends too early")
		return 0, false
	}
	return p.frame[at], true
}

func isUint(c byte) bool {
	return c <= msgpcode.PosFixedNumHigh || c >= msgpcode.Uint8 && c <= msgpcode.Uint64
}

func isInt(c byte) bool {
	return isUint(c) || c >= msgpcode.NegFixedNumLow || c >= msgpcode.Int8 && c <= msgpcode.Int64
}

func (p *parser) uint() uint64 {
	c, ok := p.code()
	if !ok {
		return 0
	}
	if !isUint(c) {
		p.fail("byte %#x where an unsigned number belongs", c)
		return 0
	}
	v, err := p.dec.DecodeUint64()
	if err != nil {
		p.fail("%v", err)
	}
	return v
}

func (p *parser) int() int64 {
	c, ok := p.code()
	if !ok {
		return 0
	}
	if !isInt(c) {
		p.fail("byte %#x where a number belongs", c)
		return 0
	}
	v, err := p.dec.DecodeInt64()
	if err != nil {
		p.fail("%v", err)
	}
	if v < 0 && c == msgpcode.Uint64 {
		p.fail("a number beyond 63 bits")
	}
	return v
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
		p.fail("mode %d is not spoken", m)
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
	if !ok {
		return false
	}
	if c != msgpcode.True && c != msgpcode.False {
		p.fail("byte %#x where true or false belongs", c)
		return false
	}
	v, err := p.dec.DecodeBool()
	if err != nil {
		p.fail("%v", err)
	}
	return v
}

// string reads UTF-8 of least to most bytes. It is copied out of the frame, the one allocation of a word.
func (p *parser) string(least, most int, what string) string {
	c, ok := p.code()
	if !ok {
		return ""
	}
	if !msgpcode.IsFixedString(c) && c != msgpcode.Str8 && c != msgpcode.Str16 {
		p.fail("byte %#x where a string belongs", c)
		return ""
	}
	s := p.run(least, most, what)
	if !utf8.Valid(s) {
		p.fail("%s is not UTF-8", what)
		return ""
	}
	return string(s)
}

// bytes reads at most so many bytes, copied out of the frame; nil for none.
func (p *parser) bytes(most int) []byte {
	c, ok := p.code()
	if !ok {
		return nil
	}
	if c != msgpcode.Bin8 && c != msgpcode.Bin16 {
		p.fail("byte %#x where bytes belong", c)
		return nil
	}
	return bytes.Clone(p.run(0, most, "value"))
}

// run reads the length of a string or of bytes, and what follows. It belongs to the frame.
func (p *parser) run(least, most int, what string) []byte {
	n, err := p.dec.DecodeBytesLen()
	switch {
	case err != nil:
		p.fail("%v", err)
		return nil
	case n < least || n > most:
		p.fail("%s of %d bytes; %d to %d are allowed", what, n, least, most)
		return nil
	case n > p.rest.Len():
		p.fail("it ends within the %s", what)
		return nil
	case n == 0:
		return nil
	}
	at := len(p.frame) - p.rest.Len()
	s := p.frame[at : at+n]
	if _, err := p.rest.Seek(int64(n), io.SeekCurrent); err != nil {
		p.fail("%v", err)
		return nil
	}
	return s
}

func (p *parser) key() vote.Key { return vote.Key(p.string(1, vote.MaxKeyLen, "key")) }

func (p *parser) name() vote.NodeID { return vote.NodeID(p.string(1, vote.MaxNameLen, "node name")) }

// array reads the header of an array of at most limit elements. Each takes a byte at least, so the bytes left are a limit too.
func (p *parser) array(limit int) int {
	c, ok := p.code()
	if !ok {
		return 0
	}
	if !msgpcode.IsFixedArray(c) && c != msgpcode.Array16 {
		p.fail("byte %#x where an array belongs", c)
		return 0
	}
	n, err := p.dec.DecodeArrayLen()
	switch {
	case err != nil:
		p.fail("%v", err)
		return 0
	case n > limit || n > p.rest.Len():
		p.fail("an array of %d elements; at most %d fit", n, min(limit, p.rest.Len()))
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

// end returns the error, and finds bytes that nobody asked for.
func (p *parser) end() error {
	if p.err == nil && p.rest.Len() > 0 {
		p.fail("%d bytes too many", p.rest.Len())
	}
	return p.err
}
