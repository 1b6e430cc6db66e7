package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFiguresWithoutASampleSaySo(t *testing.T) {
	s := mustRead(t, least, "load.clients=0", "posts.count=0")
	r := s.report(newMeasures(s), time.Hour)
	text := r.String()
	if n := strings.Count(text, none); n < 10 || strings.Contains(text, "NaN") || strings.Contains(text, "worst") {
		t.Errorf("it says %q %d times:\n%s", none, n, text)
	}
	b, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"availability", "majority", "upkeep_messages_per_node_second", "leases_lost_per_day_held", "violation"} {
		if v, ok := tree[name]; !ok || v != nil {
			t.Errorf("%s is %v, want null", name, v)
		}
	}
}

func TestAPercentileOfFewSamplesSaysSo(t *testing.T) {
	samples := make([]time.Duration, few)
	if got := times(samples[:few-1]).note("sample", "samples"); got != "99 samples: too few for a 99th percentile" {
		t.Errorf("99 samples: %q", got)
	}
	if got := times(samples).note("sample", "samples"); got != "100 samples" {
		t.Errorf("100 samples: %q", got)
	}
}

func TestRanks(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i))
	}
	slices.Sort(all)
	for _, row := range []struct {
		n    int
		q    float64
		want time.Duration
	}{{100, 0.5, 50}, {100, 0.99, 99}, {100, 1, 100}, {1, 0.5, 1}, {1, 0.99, 1}, {2, 0.5, 1}, {3, 0.5, 2}, {10, 0.99, 10}} {
		if got := rank(all[:row.n], row.q); got != row.want {
			t.Errorf("the %v-quantile of 1..%d is %d, want %d", row.q, row.n, got, row.want)
		}
	}
}

func TestWordsForNumbers(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 123456: "123µs", 1234567: "1.23ms", 10 * time.Millisecond: "10ms", 16345 * time.Millisecond: "16.3s",
		999_600 * time.Microsecond: "1s", 90 * time.Second: "1m30s", time.Hour: "1h", 25*time.Hour + 30*time.Minute: "25h30m",
		20 * time.Minute: "20m",
	} {
		if got := short(Seconds(d)); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
	for x, want := range map[float64]string{1: "100 %", 0: "0.00 %", 0.5: "50.00 %", 0.9999: "99.99 %", 0.99999: "99.999 %", 0.999999999: "99.9999999 %"} {
		if got := percent(&x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0", 2: "2", 9.987: "9.99", 29.66: "29.7", 0.0321: "0.0321", 12345: "12345", 0.0000021: "0.000002"} {
		if got := number(&x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}
