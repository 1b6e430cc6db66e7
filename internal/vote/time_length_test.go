package vote

import (
	"testing"
	"time"
)

// A lease of the length for a time lasts for that time, and not for much longer.
func TestLengthFor(t *testing.T) {
	for d := time.Duration(1); d < LongestTTL; d = d*5/3 + 1 {
		lasts := func(length time.Duration) time.Duration { return Validity(length) - Margin(length) }
		if got := lasts(LengthFor(d)); got < d || got > d+10 {
			t.Errorf("a lease of %v lasts for %v, want %v", LengthFor(d), got, d)
		}
	}
}
