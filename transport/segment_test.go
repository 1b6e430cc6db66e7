package transport

import (
	"bytes"
	"testing"
)

// pieces notes how much each write had.
type pieces struct {
	bytes.Buffer
	sizes []int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.sizes = append(p.sizes, len(b))
	return p.Buffer.Write(b)
}

// If segments can't be clamped, a handshake is written in pieces no longer than the largest
// segment.
func TestAHandshakeIsCutWhereSegmentsCannotBeClamped(t *testing.T) {
	word := bytes.Repeat([]byte("0123456789"), 250)
	var cut, whole pieces
	if n, err := writeCut(&cut, word, false); n != len(word) || err != nil || !bytes.Equal(cut.Bytes(), word) {
		t.Fatalf("wrote %d of %d bytes: %v", n, len(word), err)
	}
	if len(cut.sizes) != 3 || max(cut.sizes[0], cut.sizes[1], cut.sizes[2]) > maxSegment {
		t.Errorf("pieces of %d bytes", cut.sizes)
	}
	if _, err := writeCut(&whole, word, true); err != nil || len(whole.sizes) != 1 {
		t.Errorf("pieces of %d bytes where one would do: %v", whole.sizes, err)
	}
}
