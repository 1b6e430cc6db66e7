package lockmesh

import (
	"log/slog"
	"testing"
)

// Wire is the network in memory, for tests outside the package.
type Wire struct{ w *wire }

// InBubble runs a test in a bubble with a network.
func InBubble(t *testing.T, f func(t *testing.T, w *Wire)) {
	t.Helper()
	inBubble(t, func(t *testing.T, w *wire) { f(t, &Wire{w}) })
}

// Join starts a node, to be closed by the caller.
func (w *Wire) Join(name, bind string, peers, voters []string) (*Mesh, error) {
	p := w.w.Start()
	return join(w.w.t.Context(), Config{
		Name: name, Bind: bind, Peers: peers, Voters: voters, Insecure: true, Clock: p.Clock(), Logger: slog.New(slog.DiscardHandler),
	}, p.World())
}

// Stall holds back all messages from and to a node, until a call without on.
func (w *Wire) Stall(m *Mesh, on bool) { w.w.stall(m.eng.Self().Node, on) }
