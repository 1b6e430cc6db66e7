package lease

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestKnownToCount: a node knows that a voter counts once the voter has said so in an answer or an
// acknowledgement.
func TestKnownToCount(t *testing.T) {
	c := newTalk()
	c.all(t, "start 3", "a opens", "pass 1s")
	c.v.ReceiveTokenAnswer(c.now, "v1", &vote.Message{Kind: vote.KindTokenAnswer, Nonce: 9, Counting: true}, nil)
	c.v.ReceiveTokenAnswer(c.now, "v2", &vote.Message{Kind: vote.KindTokenAnswer, Nonce: 9, Counting: true}, nil)
	if !c.v.Counting() {
		t.Fatal("the voter doesn't count")
	}
	if c.v.KnownToCount("a") {
		t.Error("a was told nothing since the voter counts")
	}
	c.all(t, "a opens")
	if !c.v.KnownToCount("a") || c.v.KnownToCount("b") {
		t.Error("an answer tells a, and only a, that the voter counts")
	}
	c.all(t, "a refreshes")
	if !c.v.KnownToCount("a") {
		t.Error("so does an acknowledgement")
	}
	c.all(t, "a breaks")
	if c.v.KnownToCount("a") {
		t.Error("a isn't connected")
	}
}
