package lease

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// said runs some lines, and returns the voter's messages.
func (c *talk) said(t *testing.T, lines ...string) string {
	t.Helper()
	c.buf.Reset()
	c.all(t, lines...)
	return c.buf.String()
}

// wants fails unless the messages contain all of the words.
func wants(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Fatalf("%q is missing:\n%s", w, said)
		}
	}
}

const ttlMin = vote.MinTTL
