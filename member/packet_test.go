package member

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Paths through VPN, PPPoE and overlays drop longer packets silently: a gossip packet must fit into
// 1,100 bytes with its headers.
func TestNoPacketOfGossipIsTooLongForATunnel(t *testing.T) {
	sampled.Computes(t)
	for _, secured := range []bool{true, false} {
		inLab(t, func(l *lab) {
			longMesh := func(c *Config) {
				c.Mesh = strings.Repeat("m", 128)
				if !secured {
					c.Keys = nil
				}
			}
			var all []*node
			for i := range 12 {
				name := vote.NodeID(strings.Repeat(string(rune('a'+i)), vote.MaxNameLen))
				all = append(all, l.start(name, vote.Incarnation(1<<63+uint64(i)), addr(i+1), longMesh, func(c *Config) {
					c.Dir = vote.Dir(1<<63 + uint64(i))
				}))
			}
			l.within(30*time.Second, "all know each other", func() bool {
				for _, n := range all {
					if len(n.Members()) != len(all) {
						return false
					}
				}
				return true
			})
			all[11].Close()
			// simulated time: the news of a failure travels in packets with several messages
			time.Sleep(10 * time.Second)
			longest := int64(0)
			for _, n := range all {
				longest = max(longest, n.port.most.Load())
			}
			// 48 bytes are the headers of IPv6 and UDP.
			if longest > 1100-48 || longest < 600 {
				t.Errorf("secured %t: the longest packet has %d bytes; no path is sure to carry more than 1,100 with headers, "+
					"and a short one proves nothing", secured, longest)
			}
		})
	}
}
