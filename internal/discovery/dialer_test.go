package discovery

import (
	"context"
	"testing"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
)

// closes records the closed connections.
type closes struct {
	world.Links
	closed []vote.Conn
}

func (c *closes) CloseConn(conn vote.Conn) { c.closed = append(c.closed, conn) }

func TestALinkThatIsNotWantedIsClosed(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end() // nothing is dialed; the test reports the links
	f := New(ended, Config{Clocks: clock.New(nil), Terms: vote.Terms{Voters: []vote.NodeID{"a", "b"}}})
	defer f.Wait()
	links := &closes{}
	f.Connect(links)
	if f.LinkUp(1, "b") {
		t.Error("a link to b is taken before one is wanted")
	}
	f.Want([]vote.NodeID{"b"})
	if !f.LinkUp(2, "b") || !f.Links()["b"] {
		t.Errorf("links: %v, want one to b", f.Links())
	}
	old := f.dialerOf("b")
	failure := Failure{Node: "b", dialer: old}
	f.Want(nil)
	if len(links.closed) != 1 || links.closed[0] != 2 || f.LinkUp(3, "b") || old.up(3) {
		t.Errorf("closed: %v; a link to b is still taken", links.closed)
	}
	f.Want([]vote.NodeID{"b"})
	if failure.Current() || f.Links()["b"] {
		t.Error("the second dialer answers for the first")
	}
}
