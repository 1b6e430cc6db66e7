package quorum

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// bookLimit is how many changes a book holds before a refresh is sent out of turn, so that its acknowledgement clears them.
// At 24 bytes a change this is about 100 KiB a voter.
const bookLimit = 4096

// bookEvery bounds how often a refresh is sent out of turn for that: an acknowledgement must have time to come.
const bookEvery = 10 * time.Millisecond

// book is what a requester expects a voter's ledger to be at any point of their stream.
//
// The voter's ledger depends on which of our messages it has processed and which of its own it has sent. Both are counted, so
// the ledger at (processed, pushed) is a base plus all that we said up to the one and all that we heard up to the other, in
// whatever order they met.
type book struct {
	base  vote.Ledger
	said  []change
	heard []change
}

// change is what one message does to the voter's ledger.
type change struct {
	at    uint64 // the message's number in its direction
	delta vote.Ledger
}

func (b *book) reset() { *b = book{said: b.said[:0], heard: b.heard[:0]} }

func (b *book) say(at uint64, delta vote.Ledger)  { b.said = append(b.said, change{at, delta}) }
func (b *book) hear(at uint64, delta vote.Ledger) { b.heard = append(b.heard, change{at, delta}) }

// amend changes what we said at a point. A promise may cross a release: the release takes back a vote that we learn of later.
func (b *book) amend(at uint64, delta vote.Ledger) {
	i, ok := slices.BinarySearchFunc(b.said, at, func(c change, at uint64) int { return cmp.Compare(c.at, at) })
	if ok {
		b.said[i].delta = b.said[i].delta.Plus(delta)
	} else {
		b.base = b.base.Plus(delta)
	}
}

// settle folds what came before the point into the base and returns the ledger expected there.
func (b *book) settle(processed, pushed uint64) vote.Ledger {
	b.said = fold(&b.base, b.said, processed)
	b.heard = fold(&b.base, b.heard, pushed)
	return b.base
}

func fold(base *vote.Ledger, changes []change, upTo uint64) []change {
	n := 0
	for n < len(changes) && changes[n].at <= upTo {
		*base = base.Plus(changes[n].delta)
		n++
	}
	return slices.Delete(changes, 0, n)
}

func (b *book) full() bool { return len(b.said)+len(b.heard) >= bookLimit }
