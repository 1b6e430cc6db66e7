package lockmesh

import (
	"slices"
	"testing"
)

// Tokens differ by more than an int can say on a 32-bit machine: they are microseconds, of which 31 bits are 36 minutes. A barrier's members must agree
// on the order, whatever machine each runs on. Only GOARCH=386 or arm can find that broken.
func TestPermitsAreInOrderOfTheirTokens(t *testing.T) {
	const hour = 3_600_000_000
	want := []uint64{1, 1 + hour, 1 + 2*hour, 1 << 62, 1<<63 - 1}
	v := &view{held: make(map[uint64]Event)}
	for _, token := range want {
		v.held[token] = Event{Mode: Permit, Token: token}
	}
	var got []uint64
	for _, e := range v.permits() {
		got = append(got, e.Token)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}
