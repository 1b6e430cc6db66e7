package lease

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// said returns what the voter says to some lines.
func (c *talk) said(t *testing.T, lines ...string) string {
	t.Helper()
	c.buf.Reset()
	c.all(t, lines...)
	return c.buf.String()
}

// wants fails unless what was said has all of the words.
func wants(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Fatalf("%q is missing:\n%s", w, said)
		}
	}
}

// A connection that was given up long ago may still bring its statement after the session has ended, and with it the memory of the streams. What
// a lease of its own length was promised must not end by that: its owner counts it.
func TestALateStatementEndsNoLeaseThatOutlivesItsSession(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens")
	c.streams["a"] = 3
	c.all(t, "a opens ttl=200ms", "a asks 1:k at=10 length=900ms", "a extends 1 serial=1", "a confirms 1 serial=1 token=2000001 won")
	c.all(t, "b asks 1:k at=20", "a breaks", "pass 300ms", "b refreshes received=1")
	conn, from := vote.Conn(20), vote.SessionID{Node: "a", Life: 1}
	c.buf.Reset()
	for _, m := range []vote.Message{{Kind: vote.KindOpen, Stream: 2, TTL: ttlMin}, {Kind: vote.KindStatement, Stream: 2, End: true}} {
		c.hear(c.v.Step(c.now, conn, from, &m, nil))
	}
	if strings.Contains(c.buf.String(), "b: promise") {
		t.Fatalf("the key was given to another 300ms after it was promised for 900ms:\n%s", c.buf.String())
	}
	wants(t, c.said(t, "a states 1:k:won=2000001:length=900ms"), "[1 serial=1 token=2000001]")
}

const ttlMin = vote.MinTTL
