package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestAVoteThatIsExtendedIsNotExtendedAgain counts words: a node's own voter answers at once, and each of its answers finds that the other voter's is still
// to come. Asking it again each time, the two would go on for ever, in one step of their node.
func TestAVoteThatIsExtendedIsNotExtendedAgain(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n, err := b.q.Lock(b.now, Ask{Wish: vote.Wish{Key: "k", Mode: vote.Exclusive, Length: ttl / 4}})
	if err != nil {
		t.Fatal(err)
	}
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	for v, want := range map[vote.NodeID]string{"v0": "request extend", "v1": "request extend", "v2": "request"} {
		if got := b.told(v); got != want {
			t.Fatalf("%s is told %q, want %q", v, got, want)
		}
	}
	extended := vote.Message{Kind: vote.KindExtended, Number: n, Serial: 1, Sent: b.now.Fast}
	b.say("v0", extended)
	if got := b.told("v0"); got != "" {
		t.Fatalf("while another answers, v0 is told %q", got)
	}
	b.granted(n, false)
	b.pass(ttl / 4)
	b.told("v0")
	b.say("v2", vote.Message{Kind: vote.KindPromise, Number: n, Serial: 1, Token: 100})
	if got := b.told("v0"); got != "extend" {
		t.Fatalf("after its length, v0 is told %q", got)
	}
	extended.Sent = b.now.Fast
	b.say("v0", extended)
	b.granted(n, false)
	b.say("v2", extended)
	b.granted(n, true)
}
