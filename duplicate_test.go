package lockmesh

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// lockedBuffer is a log written by a node and read by a test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// While a is cut off from b and c, a second process starts as c on a's side, as if an orchestrator
// took c for dead. Both sides have a majority; with a fixed electorate nothing can prevent this.
// When the sides meet again, the newer process withdraws at once, and reports the harm that may
// have been done.
func TestOfTwoVotersOfOneNameTheNewerGivesWayAfterTheCut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c"}
		a, b, c := w.join("a", voters, nil), w.join("b", voters, nil), w.join("c", voters, nil)
		for _, m := range []*Mesh{a, b, c} {
			if err := m.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		const twin = "10.0.0.9:7950"
		left := map[string]bool{wireAddr("a"): true, twin: true}
		w.CutAddrs(func(from, to string) bool { return left[from] != left[to] })
		var logged lockedBuffer
		newer := w.join("c", voters, func(cfg *Config) {
			cfg.Bind, cfg.Peers = twin, append(cfg.Peers, twin)
			cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		})
		time.Sleep(4 * DefaultMaxTTL)
		for _, m := range []*Mesh{a, b, newer} {
			if err := m.Ready(testwait.Within(t, time.Minute)); err != nil {
				t.Fatalf("the occasion isn't there: %v", err)
			}
		}
		lost := must[*Lease](t)(a.Lock(testwait.Within(t, time.Minute), "k"))
		own := must[*Lease](t)(newer.Lock(testwait.Within(t, time.Minute), "the newer's own"))
		// the second holder: with a duplicate name exclusion isn't promised
		stays := must[*Lease](t)(b.Lock(testwait.Within(t, time.Minute), "k"))

		w.CutAddrs(nil)
		time.Sleep(2 * time.Second)
		wantIs(t, lost.Err(), ErrLost)
		wantIs(t, own.Err(), ErrLost)
		wantIs(t, lockOnce(t.Context(), newer), ErrRefused)
		wantIs(t, newer.Ready(t.Context()), ErrRefused)
		if text := logged.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "may have had two holders") {
			t.Errorf("the newer's log doesn't say what happened:\n%s", text)
		}
		if text := logged.String(); !strings.Contains(text, "keys=\"[the newer's own]\"") {
			t.Errorf("the newer's log doesn't name the keys that it held:\n%s", text)
		}
		time.Sleep(3 * DefaultMaxTTL)
		if err := stays.Err(); err != nil {
			t.Errorf("the older's side is disturbed: %v", err)
		}
		wantIs(t, newer.Ready(t.Context()), ErrRefused)
		for _, v := range a.Status().Electorate.Voters {
			if v.State != VoterReachable {
				t.Errorf("a's view of %s after the two have met: %s", v.Name, v.Text)
			}
		}
	})
}
