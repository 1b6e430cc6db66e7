package lockmesh

import (
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// wire is a network in memory, so that whole meshes live in one bubble of fake time.
type wire struct {
	*memnet.Network
	t *testing.T

	stalled map[string]bool // nodes with messages held back, both ways
	meshes  []*Mesh
	clocks  map[*Mesh]*memnet.Clock

	processes map[*Mesh]*memnet.Process // of join
}

// inBubble runs a test in a bubble with a network on which messages take no time. Meshes still open
// at the test's end are closed.
func inBubble(t *testing.T, f func(t *testing.T, w *wire)) {
	t.Helper()
	inBubbleOver(t, 0, f)
}

// inBubbleOver is inBubble on a network with a latency for each message.
func inBubbleOver(t *testing.T, latency time.Duration, f func(t *testing.T, w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{
			Network: memnet.New(latency), t: t,
			stalled: make(map[string]bool), clocks: make(map[*Mesh]*memnet.Clock), processes: make(map[*Mesh]*memnet.Process),
		}
		defer func() {
			for _, m := range w.meshes {
				if err := m.Close(); err != nil {
					t.Errorf("closing %s: %v", m.Name(), err)
				}
			}
		}()
		f(t, w)
	})
}

// wireAddr returns the address of the node of a one-letter name.
func wireAddr(name string) string { return fmt.Sprintf("10.0.0.%d:7950", name[0]-'a'+1) }

// join starts a node; edit may be nil.
func (w *wire) join(name string, voters []string, edit func(*Config)) *Mesh {
	w.t.Helper()
	p := w.Start()
	cfg := Config{
		Name: name, Bind: wireAddr(name), Voters: voters, Insecure: true, Clock: p.Clock(), Logger: slog.New(slog.DiscardHandler),
	}
	for _, v := range voters {
		cfg.Peers = append(cfg.Peers, wireAddr(v))
	}
	if edit != nil {
		edit(&cfg)
	}
	m, err := join(w.t.Context(), cfg, p.World())
	if err != nil {
		w.t.Fatal(err)
	}
	w.meshes = append(w.meshes, m)
	w.clocks[m], w.processes[m] = p.Clock(), p
	return m
}

// alone starts a node that is the only voter, and waits until the node is ready and idle.
func (w *wire) alone() *Mesh {
	w.t.Helper()
	m := w.join("a", []string{"a"}, nil)
	if err := m.Ready(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return m
}

// three starts three nodes, all voters, and waits until all are ready.
func (w *wire) three() (a, b, c *Mesh) {
	w.t.Helper()
	voters := []string{"a", "b", "c"}
	a, b, c = w.join("a", voters, nil), w.join("b", voters, nil), w.join("c", voters, nil)
	for _, m := range []*Mesh{a, b, c} {
		if err := m.Ready(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	return a, b, c
}

// stall holds back all messages from and to a node, until a call without on.
func (w *wire) stall(name vote.NodeID, on bool) {
	w.stalled[string(name)] = on
	stalled := maps.Clone(w.stalled)
	w.Cut(func(from, to string) bool { return stalled[from] || stalled[to] })
}
