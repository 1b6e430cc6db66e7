package lockmesh

import (
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
)

// book says where the voters are: by what gossip tells, and by what greetings have found. All of it is hearsay; the handshake of a
// dialed connection decides. Where the electorate follows the living, anyone may become a voter, so all members are in it.
type book struct {
	voters map[vote.NodeID]bool // nil: anyone

	mu      sync.Mutex
	gossip  map[vote.NodeID]string
	greeted map[vote.NodeID]string
	shunned *refusal // every peer that answered refuses us, so nobody will tell us where the voters are
}

// greetedMax bounds how many names have answered at configured addresses. There are no more at one time.
const greetedMax = MaxPeers * addrsPerPeer

// refusal is why this node is turned away.
type refusal struct {
	reason vote.Reason
	text   string
}

// newBook returns a book of these voters; of all members, without any.
func newBook(voters []vote.NodeID) *book {
	b := &book{gossip: make(map[vote.NodeID]string), greeted: make(map[vote.NodeID]string)}
	for _, v := range voters {
		if b.voters == nil {
			b.voters = make(map[vote.NodeID]bool)
		}
		b.voters[v] = true
	}
	return b
}

// lists reports whether a node is one whose address is wanted.
func (b *book) lists(name vote.NodeID) bool { return b.voters == nil || b.voters[name] }

// heardAll notes all that gossip knows, and forgets who isn't there any more, so that a mesh whose nodes have ever new names fills no memory.
func (b *book) heardAll(members []member.Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.gossip)
	for _, m := range members {
		if b.lists(m.Name) && m.Addr != "" {
			b.gossip[m.Name] = m.Addr
		}
	}
}

// heard notes where gossip says that a member is.
func (b *book) heard(m member.Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lists(m.Name) && m.Addr != "" {
		b.gossip[m.Name] = m.Addr
	}
}

// met notes who has answered at an address, and reports whether that is news of a voter.
func (b *book) met(name vote.NodeID, addr string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name == "" || !b.lists(name) || b.greeted[name] == addr {
		return false
	}
	if len(b.greeted) >= greetedMax {
		clear(b.greeted) // the addresses stand for ever other names
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
