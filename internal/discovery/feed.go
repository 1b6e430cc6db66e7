package discovery

import (
	"context"
	"time"
)

// feedEvery is how often the node receives gossip's members, in addition to when there is news.
const feedEvery = time.Second

// membershipFeed passes the members known to gossip to the node, with dynamic membership. One
// goroutine runs the feed, since the node's loop never waits and a group may take its time.
type membershipFeed struct {
	f    *Finder
	wake chan struct{} // capacity 1: there is news
}

// run feeds the node until ctx ends.
func (m *membershipFeed) run(ctx context.Context) {
	for ctx.Err() == nil {
		members := m.f.group.Members()
		m.f.book.setMembers(members)
		if !m.f.cfg.Host.Members(members) {
			return
		}
		m.f.sleep(ctx, feedEvery, m.wake)
	}
}
