package lockmesh

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// A restart of a voter is logged at INFO, since the voter counts again by itself. If the voter then
// dies before its votes count, a line at WARN must tell the operator: the voter won't be back by
// itself.
func TestAVoterThatDiesWhileItIsQuietIsWarnedOf(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		log := &lockedBuffer{}
		voters := []string{"a", "b", "c"}
		a := w.join("a", voters, func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		b, c := w.join("b", voters, nil), w.join("c", voters, nil)
		for _, m := range []*Mesh{a, b, c} {
			if err := m.Settled(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = w.join("b", voters, nil)
		time.Sleep(3 * time.Second)
		lines := func(parts ...string) (n int) {
			for line := range strings.Lines(log.String()) {
				all := true
				for _, part := range parts {
					all = all && strings.Contains(line, part)
				}
				if all {
					n++
				}
			}
			return n
		}
		if n := lines("level=INFO", "a voter has restarted", "voter=b"); n != 1 {
			t.Fatalf("%d lines tell of the restart:\n%s", n, log.String())
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := lines("level=WARN", "a voter doesn't count", "voter=b"); n != 1 {
			t.Errorf("%d warnings tell of the voter that is dead for an hour:\n%s", n, log.String())
		}
	})
}
