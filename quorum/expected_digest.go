package quorum

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// digestLimit is how many changes an expected digest holds before an extra refresh is sent, so that
// the acknowledgement clears them. At 24 bytes a change the limit is about 100 KiB a voter.
const digestLimit = 4096

// digestRefreshEvery is the least time between such extra refreshes: an acknowledgement needs time
// to arrive.
const digestRefreshEvery = 10 * time.Millisecond

// expectedDigest is the expected digest: what a requester expects a voter's digest to be at any
// point of their stream.
//
// The voter's digest depends on how many of the requester's messages the voter has processed, and
// on how many messages the voter has sent. Both are counted. So the digest at (processed, pushed)
// is a base plus the changes of all messages sent up to processed and of all messages received up
// to pushed, in whatever order the two directions interleaved.
type expectedDigest struct {
	base     vote.Digest
	sent     []change
	received []change
}

// change is what one message does to the voter's digest.
type change struct {
	at    uint64 // the message's number in its direction
	delta vote.Digest
}

func (b *expectedDigest) reset() { *b = expectedDigest{sent: b.sent[:0], received: b.received[:0]} }

func (b *expectedDigest) addSent(at uint64, delta vote.Digest) {
	b.sent = append(b.sent, change{at, delta})
}
func (b *expectedDigest) addReceived(at uint64, delta vote.Digest) {
	b.received = append(b.received, change{at, delta})
}

// amend corrects the change of a message sent earlier. A promise may cross a release: then the
// release takes back a vote of which the requester learns only later.
func (b *expectedDigest) amend(at uint64, delta vote.Digest) {
	i, ok := slices.BinarySearchFunc(b.sent, at, func(c change, at uint64) int { return cmp.Compare(c.at, at) })
	if ok {
		b.sent[i].delta = b.sent[i].delta.Plus(delta)
	} else {
		b.base = b.base.Plus(delta)
	}
}

// settle folds the changes up to a point into the base and returns the digest expected there.
func (b *expectedDigest) settle(processed, pushed uint64) vote.Digest {
	b.sent = fold(&b.base, b.sent, processed)
	b.received = fold(&b.base, b.received, pushed)
	return b.base
}

func fold(base *vote.Digest, changes []change, upTo uint64) []change {
	n := 0
	for n < len(changes) && changes[n].at <= upTo {
		*base = base.Plus(changes[n].delta)
		n++
	}
	return slices.Delete(changes, 0, n)
}

func (b *expectedDigest) full() bool { return len(b.sent)+len(b.received) >= digestLimit }
