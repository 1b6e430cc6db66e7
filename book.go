package lockmesh

import (
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
)

// book says where the voters are: by what gossip tells, and by what greetings have found. All of it is hearsay; the handshake of a
// dialed connection decides.
type book struct {
	voters map[vote.NodeID]bool

	mu      sync.Mutex
	gossip  map[vote.NodeID]string
	greeted map[vote.NodeID]string
	shunned *refusal // every peer that answered refuses us, so nobody will tell us where the voters are
}

// refusal is why this node is turned away.
type refusal struct {
	reason vote.Reason
	text   string
}

func newBook(voters []vote.NodeID) *book {
	b := &book{voters: make(map[vote.NodeID]bool), gossip: make(map[vote.NodeID]string), greeted: make(map[vote.NodeID]string)}
	for _, v := range voters {
		b.voters[v] = true
	}
	return b
}

// heard notes where gossip says that a member is.
func (b *book) heard(m member.Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.voters[m.Name] && m.Addr != "" {
		b.gossip[m.Name] = m.Addr
	}
}

// met notes who has answered at an address, and reports whether that is news of a voter.
func (b *book) met(name vote.NodeID, addr string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.voters[name] || b.greeted[name] == addr {
		return false
	}
	b.greeted[name] = addr
	return true
}

// shun notes that every peer that answered refuses us, or with nil that it isn't so. It reports whether that is news.
func (b *book) shun(why *refusal) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := (b.shunned == nil) != (why == nil) || why != nil && *b.shunned != *why
	b.shunned = why
	return changed
}

// find returns the addresses at which to look for a voter, the likeliest first, and if there are none why nobody tells.
func (b *book) find(voter vote.NodeID) (addrs []string, shunned *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.gossip[voter]; ok {
		addrs = append(addrs, a)
	}
	if a, ok := b.greeted[voter]; ok && a != b.gossip[voter] {
		addrs = append(addrs, a)
	}
	if len(addrs) == 0 {
		shunned = b.shunned
	}
	return addrs, shunned
}

// inGossip reports whether gossip has ever told of a voter.
func (b *book) inGossip(voter vote.NodeID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.gossip[voter]
	return ok
}
