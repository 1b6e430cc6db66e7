package lockmesh

import (
	"slices"
	"testing"
)

// Tokens may differ by more than an int on a 32-bit machine: a token counts microseconds, and 31
// bits are 36 minutes. The members of a barrier must agree on the order, on any machine. Only a
// test with GOARCH=386 or arm can find a fault.
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
