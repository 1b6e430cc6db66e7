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

func (d *expectedDigest) reset() { *d = expectedDigest{sent: d.sent[:0], received: d.received[:0]} }

func (d *expectedDigest) addSent(at uint64, delta vote.Digest) {
	d.sent = append(d.sent, change{at, delta})
}
func (d *expectedDigest) addReceived(at uint64, delta vote.Digest) {
	d.received = append(d.received, change{at, delta})
}

// amend corrects the change of a message sent earlier. A promise may cross a release: then the
// release takes back a vote of which the requester learns only later.
func (d *expectedDigest) amend(at uint64, delta vote.Digest) {
	i, ok := slices.BinarySearchFunc(d.sent, at, func(c change, at uint64) int { return cmp.Compare(c.at, at) })
	if ok {
		d.sent[i].delta = d.sent[i].delta.Plus(delta)
	} else {
		d.base = d.base.Plus(delta)
	}
}

// settle folds the changes up to a point into the base and returns the digest expected there.
func (d *expectedDigest) settle(processed, pushed uint64) vote.Digest {
	d.sent = fold(&d.base, d.sent, processed)
	d.received = fold(&d.base, d.received, pushed)
	return d.base
}

func fold(base *vote.Digest, changes []change, upTo uint64) []change {
	n := 0
	for n < len(changes) && changes[n].at <= upTo {
		*base = base.Plus(changes[n].delta)
		n++
	}
	return slices.Delete(changes, 0, n)
}

func (d *expectedDigest) full() bool { return len(d.sent)+len(d.received) >= digestLimit }
