package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A voter keeps up no minimum hold for a vote with a length that was never extended. So a request
// is granted only once the voters whose votes were extended have acknowledged recently enough,
// however recently another voter has.
func TestAVoteThatWasNeverExtendedKeepsUpNoMinimumHold(t *testing.T) {
	const length, hold = 100 * time.Millisecond, 7 * ttl / 10
	b := newBench(t, 3)
	b.all()
	b.pass(4 * ttl / 10)
	n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: length, MinHold: hold}})
	for _, v := range b.names {
		b.promise(v, n, 1, 100)
	}
	for _, v := range b.names[1:] {
		b.ack(v, nil)
	}
	for _, v := range b.names[:2] {
		b.extended(v, n, 1, b.now.Fast)
	}
	b.granted(n, false)
	b.ack("v0", nil)
	b.granted(n, true)
}
