package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Gossip is a library, so the test compares the documented cost with the packets sent.
func TestGossipSendsNoMoreThanItsUpkeep(t *testing.T) {
	sampled.Computes(t)
	sampled.Unraced(t)
	const minute = 60.0
	for _, members := range []int{2, 3, 20} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			inLab(t, func(l *lab) {
				var names []vote.NodeID
				var nodes []*node
				for i := range members {
					name := vote.NodeID(fmt.Sprintf("n%02d", i))
					names = append(names, name)
					nodes = append(nodes, l.start(name, vote.Incarnation(i+1), addr(i+1)))
				}
				l.within(time.Minute, "all know each other", func() bool {
					for _, n := range nodes {
						if !n.sees(names...) {
							return false
						}
					}
					return true
				})
				time.Sleep(time.Minute) // simulated time, until there is no news
				before := make([]int64, members)
				all := 0.0
				for i, n := range nodes {
					before[i] = n.port.sent.Load()
				}
				time.Sleep(time.Minute)
				u := UpkeepOf(Timing{}, members)
				for i, n := range nodes {
					sent := float64(n.port.sent.Load() - before[i])
					all += sent
					if sent > (u.Probes+u.News)*minute {
						t.Errorf("%s has sent %v packets in a minute, more than %v a second", names[i], sent, u.Probes+u.News)
					}
					if most := n.port.most.Load(); most > int64(u.Packet) {
						t.Errorf("%s has sent a packet of %d bytes, more than %d", names[i], most, u.Packet)
					}
				}
				least := 0.9 * u.Probes
				// memberlist's round skips the node itself, and rests for a probe at its end
				if members == 2 {
					least = 0.4 * u.Probes
				}
				if each := all / float64(members) / minute; each < least || each > 1.01*u.Probes {
					t.Errorf("without news a member sends %v packets a second on average instead of %v", each, u.Probes)
				}
			})
		})
	}
}

func TestUpkeepFollowsFromTiming(t *testing.T) {
	for _, row := range []struct {
		timing  Timing
		members int
		want    Upkeep
	}{
		{Timing{}, 1, Upkeep{0, 0, 1048, 10 * time.Second}},
		{Timing{}, 2, Upkeep{2 / 0.5, 5, 1048, 10 * time.Second}},
		{Timing{}, 32, Upkeep{2 / 0.5, 15, 1048, 10 * time.Second}},
		{Timing{}, 33, Upkeep{2 / 0.5, 15, 1048, 20 * time.Second}},
		{Timing{}, 64, Upkeep{2 / 0.5, 15, 1048, 20 * time.Second}},
		{Timing{}, 300, Upkeep{2 / 0.5, 15, 1048, 50 * time.Second}},
		{Timing{Probe: time.Second, Gossip: 200 * time.Millisecond, Sync: time.Minute}, 5, Upkeep{2, 15, 1048, time.Minute}},
	} {
		if got := UpkeepOf(row.timing, row.members); got != row.want {
			t.Errorf("%+v with %d members: %+v instead of %+v", row.timing, row.members, got, row.want)
		}
	}
}
