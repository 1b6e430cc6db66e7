package node

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// A lock awaited by many watches of the same node leaves messages between requester and voter to
// the next Tick. This Tick delivers the messages and then does all other work due: the messages
// don't delay a refresh.
func TestATickDoesWhatIsDueBesideMessagesThatWereLeft(t *testing.T) {
	m := newMesh(t, 1)
	m.pass(2*ttl + 2*vote.TokenQueryTimeout)
	n := m.nodes["a"]
	if !n.Ready() {
		t.Fatalf("%v", n.Voters(m.at("a")))
	}
	for range 1000 {
		n.Watch(m.at("a"), "k", false)
	}
	m.pass(ttl)
	if _, err := n.Lock(m.at("a"), quorum.Exclusive("k", false)); err != nil {
		t.Fatal(err)
	}
	for n.Busy() && !n.hasLocal() {
		n.Tick(m.at("a"))
	}
	if !n.hasLocal() {
		t.Fatal("no message is left")
	}
	const pause = ttl / vote.RefreshesPerTTL
	m.now.Fast, m.now.Slow = m.now.Fast.Add(pause), m.now.Slow.Add(pause)
	m.now.Wall += vote.Micros(pause / time.Microsecond)
	for n.hasLocal() {
		n.Tick(m.at("a"))
	}
	if next := n.Next(m.at("a")); next <= 0 {
		t.Errorf("work is due since %v once all messages are delivered", -next)
	}
}
