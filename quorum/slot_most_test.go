package quorum

import "testing"

// Votes move to the slot that needs the fewest moves, even if another slot has a lower number.
func TestVotesAreMovedToTheSlotWithTheMostVotes(t *testing.T) {
	b := newBench(t, 5)
	b.all()
	n := b.permit(3)
	b.slot("v0", n, 1, 2)
	b.slot("v1", n, 1, 2)
	b.slot("v2", n, 1, 1)
	if got := b.yielded("v2"); len(got) != 1 || got[0] != 2 {
		t.Errorf("v2 was asked for %v, want slot 2", got)
	}
	for _, v := range b.names[:2] {
		if got := b.yielded(v); len(got) != 0 {
			t.Errorf("%s was asked for %v, and has voted for the slot with the most votes", v, got)
		}
	}
	b.slot("v2", n, 2, 2)
	b.granted(n, true)
}
