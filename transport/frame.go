package transport

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A frame is a big-endian length of 4 bytes, counting the rest of the frame; a byte with the wire
// version of the payload; and the payload. Each message is a frame of its own, and any number of
// frames may share one write.

const (
	lengthBytes = 4
	frameHeader = lengthBytes + 1

	// maxFrame bounds the part of a frame after the length: the version and the payload. A chunk of
	// a sync (KindSync) with as many and as long keys as allowed stays below maxFrame; a peer
	// can't make this node buffer more before decoding.
	maxFrame = 64 << 10

	// readBuffer is the size of the buffer for reads from a stream. Nearly every batch of messages
	// fits; a longer frame gets its own buffer.
	readBuffer = 16 << 10
)

// appendFrame appends a frame with the payload that fill appends. On an error dst is returned
// unchanged.
func appendFrame(dst []byte, version uint8, fill func([]byte) ([]byte, error)) ([]byte, error) {
	start := len(dst)
	b, err := fill(append(dst, 0, 0, 0, 0, version))
	if err != nil {
		return dst[:start], err
	}
	return seal(b, start)
}

// appendMessage appends a frame with m as its payload, like appendFrame but without a closure, for
// the hot path.
func appendMessage(dst []byte, version uint8, m *vote.Message) ([]byte, error) {
	start := len(dst)
	if version < DecidedTTLVersion && m.Consensus != nil {
		var err error
		if m, err = withoutMaxTTL(m); err != nil {
			return dst, err
		}
	}
	b, err := Append(append(dst, 0, 0, 0, 0, version), m)
	if err != nil {
		return dst[:start], err
	}
	return seal(b, start)
}

// seal writes the length of the frame that begins at start.
func seal(b []byte, start int) ([]byte, error) {
	n := len(b) - start - lengthBytes
	if n > maxFrame {
		return b[:start], fmt.Errorf("%w: a frame of %d bytes, at most %d are allowed", errMalformed, n, maxFrame)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(n))
	return b, nil
}

// frameReader splits a stream into frames. The goroutine that reads the stream owns the
// frameReader, which starts no goroutine.
type frameReader struct {
	from *bufio.Reader
	long []byte // for frames too long for the bufio.Reader; reused
	used int    // bytes of the last frame still in the bufio.Reader
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{from: bufio.NewReaderSize(r, readBuffer)}
}

// next returns the next frame. The payload is valid until the following call. A frame longer than
// limit is reported as an error before any allocation for the frame. io.EOF means that the stream
// ended between frames.
func (f *frameReader) next(limit int) (version uint8, payload []byte, err error) {
	if _, err := f.from.Discard(f.used); err != nil {
		return 0, nil, err
	}
	f.used = 0
	head, err := f.from.Peek(lengthBytes)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < 1 || uint64(n) > uint64(limit) {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes; 1 to %d are allowed", errMalformed, n, limit)
	}
	body, err := f.body(int(n))
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return body[0], body[1:], nil
}

// ready reports whether next would return without waiting, with a whole frame or with an error
// about a frame.
func (f *frameReader) ready() bool {
	have := f.from.Buffered() - f.used
	if have < lengthBytes {
		return false
	}
	b, err := f.from.Peek(f.used + lengthBytes)
	return err != nil || uint64(have-lengthBytes) >= uint64(binary.BigEndian.Uint32(b[f.used:]))
}

func (f *frameReader) body(n int) ([]byte, error) {
	if lengthBytes+n <= f.from.Size() {
		b, err := f.from.Peek(lengthBytes + n)
		if err != nil {
			return nil, err
		}
		f.used = len(b)
		return b[lengthBytes:], nil
	}
	if _, err := f.from.Discard(lengthBytes); err != nil {
		return nil, err
	}
	if cap(f.long) < n {
		f.long = make([]byte, n)
	}
	_, err := io.ReadFull(f.from, f.long[:n])
	return f.long[:n], err
}
