package resp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"
)

// errProtocol is an error of a client's framing. Nothing further can be read.
var errProtocol = errors.New("Protocol error")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errProtocol, fmt.Sprintf(format, args...))
}

// bounds are the limits of a request.
type bounds struct {
	length int // in bytes
	args   int
}

var (
	memberBounds   = bounds{MaxRequest, MaxArgs}
	strangerBounds = bounds{maxStrangerRequest, maxStrangerArgs}
)

// parseRequest reads the request at the beginning of b. The results are the request's words,
// sharing b's memory, and the request's length. While the request is incomplete, args is nil and
// need the least length of b for a complete request.
//
// The package has a reader of its own, since redcon's reader grows its buffer as long as a client
// sends, and panics or hangs on a length near the largest integer.
func parseRequest(b []byte, most bounds) (args [][]byte, length, need int, err error) {
	if len(b) == 0 {
		return nil, 0, 1, nil
	}
	if b[0] != '*' {
		return parseInline(b)
	}
	count, at, err := parseNumber(b, 0, "multibulk")
	if err != nil || at == 0 {
		return nil, 0, len(b) + 1, err
	}
	if count > most.args {
		return nil, 0, 0, broken("invalid multibulk length: %d words, more than %d", count, most.args)
	}
	if count <= 0 { // Redis ignores an empty request, too
		return [][]byte{}, at, 0, nil
	}
	args = make([][]byte, 0, min(count, 16))
	for n := range count {
		left := (count - n - 1) * len("$0\r\n\r\n") // the least length of the words behind
		if at >= len(b) {
			return nil, 0, at + len("$0\r\n\r\n") + left, nil
		}
		if b[at] != '$' {
			return nil, 0, 0, broken("expected '$', got %q", b[at])
		}
		size, start, err := parseNumber(b, at, "bulk")
		if err != nil {
			return nil, 0, 0, err
		}
		if start == 0 {
			return nil, 0, len(b) + 1 + left, nil
		}
		if size < 0 || size > most.length-start {
			return nil, 0, 0, broken("invalid bulk length: the request has more than %d bytes", most.length)
		}
		end := start + size + 2
		if end > len(b) {
			return nil, 0, end + left, nil
		}
		if b[end-2] != '\r' || b[end-1] != '\n' {
			return nil, 0, 0, broken("a word of %d bytes doesn't end there", size)
		}
		args = append(args, b[start:start+size:start+size])
		at = end
	}
	return args, at, 0, nil
}

// parseNumber reads the line "*3\r\n" or "$3\r\n" at b[at:]. end is the position behind the line,
// or 0 if the line is incomplete.
func parseNumber(b []byte, at int, what string) (n, end int, err error) {
	line := b[at+1:]
	i := bytes.IndexByte(line[:min(len(line), maxLine)], '\n')
	switch {
	case i < 0 && len(line) >= maxLine:
		return 0, 0, broken("invalid %s length", what)
	case i < 0:
		return 0, 0, nil
	case i == 0 || line[i-1] != '\r':
		return 0, 0, broken("invalid %s length", what)
	}
	digits := line[:i-1]
	if n, err = strconv.Atoi(string(digits)); err != nil || digits[0] == '+' {
		return 0, 0, broken("invalid %s length", what)
	}
	return n, at + 1 + i + 1, nil
}

// parseInline reads a request typed by hand, a line of words.
func parseInline(b []byte) (args [][]byte, length, need int, err error) {
	i := bytes.IndexByte(b[:min(len(b), maxInline)], '\n')
	if i < 0 {
		if len(b) >= maxInline {
			return nil, 0, 0, broken("too big inline request")
		}
		return nil, 0, len(b) + 1, nil
	}
	line := b[:i+1]
	if len(bytes.TrimSpace(line)) == 0 {
		return [][]byte{}, i + 1, 0, nil
	}
	if line[0] == '$' { // a reply, or another protocol of redcon
		return nil, 0, 0, broken("unexpected '$'")
	}
	complete, args, _, _, err := redcon.ReadNextCommand(line, nil)
	if err != nil {
		return nil, 0, 0, broken("%s", strings.TrimPrefix(err.Error(), "Protocol error: "))
	}
	if !complete || len(args) == 0 {
		return [][]byte{}, i + 1, 0, nil
	}
	return args, i + 1, 0, nil
}

// reader reads the requests of a connection. Its buffer grows with a request, up to the bounds, and
// shrinks afterwards, so an idle connection takes little memory.
type reader struct {
	nc    net.Conn
	buf   []byte
	r, w  int // buf[r:w] was read from the connection and not yet parsed
	need  int // how many bytes a complete request has at least
	timed bool
}

// readerLen is the length of the buffer of an idle connection.
const readerLen = 2 << 10

// next returns the next request among the arrived bytes; args is nil without a complete request.
// The words are valid until the next call of fill.
func (r *reader) next(most bounds) (args [][]byte, inline bool, err error) {
	for r.w-r.r >= max(r.need, 1) {
		b := r.buf[r.r:r.w]
		args, length, need, err := parseRequest(b, most)
		if err != nil {
			return nil, false, err
		}
		if args == nil {
			if need > most.length {
				return nil, false, broken("the request has more than %d bytes", most.length)
			}
			r.need = need
			return nil, false, nil
		}
		r.r += length
		r.need = 0
		if r.timed {
			r.timed = false
			if err := r.nc.SetReadDeadline(time.Time{}); err != nil {
				return nil, false, err
			}
		}
		if len(args) > 0 {
			return args, b[0] != '*', nil
		}
	}
	return nil, false, nil
}

// fill waits until more bytes arrive, and until a time at most; with a zero time, a begun request
// must be complete within requestTime, and there is any time to begin a request.
func (r *reader) fill(until time.Time) error {
	if until.IsZero() && r.w > r.r {
		until = time.Now().Add(requestTime)
	}
	if !until.IsZero() && !r.timed {
		r.timed = true
		if err := r.nc.SetReadDeadline(until); err != nil {
			return err
		}
	}
	return r.more()
}

// more waits until more bytes arrive.
func (r *reader) more() error {
	r.room(r.w > r.r)
	n, err := r.nc.Read(r.buf[r.w:])
	r.w += n
	if n > 0 {
		return nil
	}
	return err
}

// room makes room in the buffer for more bytes. The buffer grows with the bytes sent by a client,
// never with announced bytes.
func (r *reader) room(begun bool) {
	have := r.buf[r.r:r.w]
	switch {
	case !begun && len(r.buf) != readerLen:
		r.buf = make([]byte, readerLen)
	case len(have) == len(r.buf):
		r.buf = make([]byte, 2*len(r.buf))
	}
	r.w = copy(r.buf, have)
	r.r = 0
}
