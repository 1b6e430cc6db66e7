package plain

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/admin"
)

// TestSafe: no text changes a terminal, and readable texts stay as they are.
func TestSafe(t *testing.T) {
	for text, want := range map[string]string{
		"jobs/1 é 日本":           "jobs/1 é 日本",
		"e\u0301":               "e\u0301",
		"\x1b[2J\x1b]0;x\a":     "�[2J�]0;x�",
		"a\tb\r\nc\x00\x7f":     "a�b��c��",
		"\u202eabc\u200d\u2028": "�abc��",
		"\x9b31m\xff":           "�31m�",
		"\u009b31m":             "�31m",
		"\u00a0":                "�",
	} {
		if got := Safe(text); got != want {
			t.Errorf("%q is shown as %q, not %q", text, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1234 * time.Millisecond: "1.2s", 83400 * time.Millisecond: "1m23s",
	} {
		if got := Time(d); got != want {
			t.Errorf("%v is %s, not %s", d, got, want)
		}
	}
	if got := Milliseconds(1500); got != 1500*time.Millisecond {
		t.Errorf("1500 ms are %v", got)
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		Count(1, "voter"): "1 voter", Count(0, "voter"): "0 voters", Count(3, "lease"): "3 leases",
		Mode("shared", 0, 0): "shared", Mode("permit", 1, 3): "permit 1 of 3",
		Voter(&admin.Voter{Name: "b", State: "quiet", Text: "b: quiet for another 3s"}):    "for another 3s",
		Voter(&admin.Voter{Name: "b", State: "reachable", Text: "b: reachable"}):           "",
		Voter(&admin.Voter{Name: "b", State: "unreachable", Text: "b unreachable (gone)"}): "(gone)",
	} {
		if got != want {
			t.Errorf("%q is shown, not %q", got, want)
		}
	}
}
