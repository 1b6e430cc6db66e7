package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// echoing is a node on a network that breaks its promises: the network delivers messages twice, and
// messages of earlier streams and incarnations again.
type echoing struct {
	Machine
	w    *World
	rnd  *rand.Rand
	past []heard // a sample of the messages received
}

type heard struct {
	from vote.NodeID
	m    vote.Message
}

func (e *echoing) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	kept := heard{from.Node, *m}
	kept.m.Entries = slices.Clone(m.Entries)
	e.Machine.Deliver(now, conn, from, m)
	if e.w.faults.healed {
		return
	}
	if e.rnd.IntN(50) == 0 {
		again := kept.m
		e.Machine.Deliver(now, conn, from, &again)
	}
	if len(e.past) < 300 {
		e.past = append(e.past, kept)
	} else {
		e.past[e.rnd.IntN(len(e.past))] = kept
	}
	if old := e.past[e.rnd.IntN(len(e.past))]; e.rnd.IntN(20) == 0 && old.from == from.Node && old.m.Stream != m.Stream {
		e.Machine.Deliver(now, conn, from, &old.m)
	}
}

func TestFault15And44WordsThatComeTwiceOrTooLate(t *testing.T) {
	eachSeed(t, 10, func(t *testing.T, seed uint64) {
		o := Draw(seed)
		o.Build = func(w *World, cfg node.Config, now vote.Now) (Machine, error) {
			n, err := node.New(cfg, now)
			return &echoing{Machine: n, w: w, rnd: rand.New(rand.NewPCG(uint64(cfg.Incarnation), 0))}, err
		}
		w := New(o)
		w.judge.deaf = map[string]bool{checkDigests: true} // repeated messages are counted too
		w.Run(20 * time.Second)
		if err := w.Settle(); err != nil {
			t.Errorf("%v", err)
		}
	})
}

// TestFault05QuietTooShort ends a voter's startup quarantine a few milliseconds early.
func TestFault05QuietTooShort(t *testing.T) {
	for _, row := range []struct {
		name  string
		early time.Duration
		want  string
	}{
		{"not at all", 0, ""},
		{"a timer's lateness too short", 3 * maxLate, checkQuiet},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := New(Options{MaxTTL: sceneTTL, Net: Net{Least: 50 * time.Microsecond, Most: 60 * time.Microsecond}, Build: func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
				now.Slow = now.Slow.Add(-row.early)
				return node.New(cfg, now)
			}})
			w.Run(2 * sceneTTL)
			w.Script.Restart("c")
			w.Run(2 * sceneTTL)
			got := ""
			if w.failed != nil {
				got = w.failed.Check
			}
			if got != row.want {
				t.Fatalf("the world says %v, want %q", w.Err(), row.want)
			}
		})
	}
}
