package realworld

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// alone starts gossip of a node without peers in the real world, until end is called.
func alone(t *testing.T, n int) (probe time.Duration, end func()) {
	t.Helper()
	self := vote.SessionID{Node: vote.NodeID(fmt.Sprintf("n%d", n)), Incarnation: 1}
	voters := []vote.NodeID{self.Node}
	links, err := World.Listen(t.Context(), transport.Config{
		Bind: "127.0.0.1:0", Self: self, Handler: struct{ transport.Handler }{}, Terms: transport.Terms{Mesh: "m", MaxTTL: time.Second, Voters: voters},
	})
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(links.AdvertiseAddr())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	group, err := World.Gossip(links, member.Config{
		Self: self, AdvertiseHost: host, AdvertisePort: number, Mesh: "m", Logger: slog.New(slog.DiscardHandler),
		Terms: member.Terms{VersionMin: 1, VersionMax: 1, MaxTTL: time.Second, Voters: voters},
	})
	if err != nil {
		t.Fatal(err)
	}
	return group.(*member.Serf).Timing().Probe, func() {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
		if err := links.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAllGroupsOfTheProcessAreCountedTogether(t *testing.T) {
	const some = 32 // as many probe at full speed
	for range 2 {   // the second time after all groups have ended
		var ends []func()
		for i := range some + 1 {
			probe, end := alone(t, i)
			ends = append(ends, end)
			if slow := probe > 500*time.Millisecond; slow != (i == some) {
				t.Errorf("group %d of the process probes each %v", i+1, probe)
			}
		}
		for _, end := range ends {
			end()
		}
	}
}
