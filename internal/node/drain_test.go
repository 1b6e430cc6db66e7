package node

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Drain appends to the caller's slices, and returns each message once.
func TestDrainAppends(t *testing.T) {
	m := newMesh(t, 3)
	m.nodes["a"].Link(m.now, 77, vote.SessionID{Node: "b", Incarnation: m.incarnations["b"]})
	first := vote.Outbound{Conn: 1234}
	event := quorum.Event{Number: 4321}
	out, events := m.nodes["a"].Drain([]vote.Outbound{first}, []quorum.Event{event})
	if len(out) < 2 || out[0].Conn != first.Conn || events[0].Number != event.Number {
		t.Errorf("%d words and %d events: what the caller had, or what the node has to say, is missing", len(out), len(events))
	}
	if again, _ := m.nodes["a"].Drain(nil, nil); len(again) != 0 {
		t.Errorf("%d words are handed out twice", len(again))
	}
}
