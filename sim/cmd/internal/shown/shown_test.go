package shown

import "testing"

func TestDiffer(t *testing.T) {
	for _, row := range []struct {
		shown, printed string
		share          float64
		same           bool
	}{
		{"free lock   median 352µs", "free lock  median 354µs", 0.1, true},
		{"free lock   median 352µs", "free lock  median 454µs", 0.1, false},
		{"free lock   median 352µs", "free lock  median 352ms", 0.1, false},
		{"free lock   median 990µs", "free lock  median 1.01ms", 0.1, true},
		{"free lock   median 352µs", "hand-over  median 352µs", 0.1, false},
		{"a\nb 3", "a", 0.1, false},
		{"availability 99.95 %", "availability 99.2 %", 0, true},
		{"availability 99.95 %", "availability 98.2 %", 1, false},
		{"| 300 | 13,074 |", "| 300 | 13,174 |", 0.1, true},
		{"| 300 | 13,074 |", "| 300 | 23,174 |", 0.1, false},
		{"| 300 | - |", "| 300 | 4 |", 0.1, false},
		{"simulated 1h30m0s, TTL 10s", "simulated 1h30m0s, TTL 10s", 0, true},
		{"max 1m0.5s", "max 1m1s", 0.1, true},
		{"0 lost", "1 lost", 0.1, false},
		{"", "", 0, true},
	} {
		if why := Differ(row.shown, row.printed, row.share); (why == "") != row.same {
			t.Errorf("%q and %q, %v: %q", row.shown, row.printed, row.share, why)
		}
	}
}
