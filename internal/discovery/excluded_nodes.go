package discovery

import (
	"cmp"
	"slices"
)

const (
	// maxExcluded bounds the number of excluded nodes' addresses kept.
	maxExcluded = 256

	// probesMost is how many excluded nodes are probed in one round. At most silentMost of them
	// didn't answer their last probe: such a probe takes a second, in which the next round should
	// begin.
	probesMost = 64
	silentMost = probesAtOnce / 2

	// foreignMost is how many probes in a row find another mesh or another secret until an address
	// is removed. While a secret is changed, a voter with another list may be refused for a while.
	foreignMost = 60
)

// excludedNodes are the addresses of nodes kept apart by gossip, and what is known of each. All of
// them have their turn: voters among them before others, since two lists of voters that don't meet
// may both count. Not safe for concurrent use.
type excludedNodes struct {
	m      map[string]*excludedNode
	probes uint64
}

// excludedNode is what is known of a node at an address.
type excludedNode struct {
	addr      string
	voter     bool   // or not known yet
	silent    int    // how many probes in a row had no answer
	foreign   int    // how many probes in a row found another mesh or another secret
	lastProbe uint64 // the number of the last probe, among all probes; zero for none
}

func newExcludedNodes() *excludedNodes { return &excludedNodes{m: make(map[string]*excludedNode)} }

// add adds an address of which nothing is known but that a node may be there. An address that is
// known already stays as it is.
func (s *excludedNodes) add(addr string) *excludedNode {
	if x, ok := s.m[addr]; ok {
		return x
	}
	if len(s.m) >= maxExcluded {
		s.evict()
	}
	x := &excludedNode{addr: addr, voter: true}
	s.m[addr] = x
	return x
}

// noteAnswer records that a node has answered from an address, or has called from it.
func (s *excludedNodes) noteAnswer(addr string, voter bool) {
	x := s.add(addr)
	x.voter, x.silent, x.foreign = voter, 0, 0
}

// probed records whether a probe had an answer. The node there may say that its address is another.
func (s *excludedNodes) probed(addr string, answered bool) {
	switch x, ok := s.m[addr]; {
	case !ok:
	case answered:
		x.silent, x.foreign = 0, 0
	default:
		x.silent++
	}
}

// foreign records that a probe has found another mesh or another secret.
func (s *excludedNodes) foreign(addr string) {
	x, ok := s.m[addr]
	if !ok {
		return
	}
	x.silent = 0
	if x.foreign++; x.foreign >= foreignMost {
		s.remove(addr)
	}
}

// remove removes an address at which no excluded node is any more.
func (s *excludedNodes) remove(addr string) { delete(s.m, addr) }

// evict makes room: it removes the address that has been silent for longest, of those of non-voters
// if there are any.
func (s *excludedNodes) evict() {
	all := s.all()
	if others := slices.DeleteFunc(slices.Clone(all), func(x *excludedNode) bool { return x.voter }); len(others) > 0 {
		all = others
	}
	victim := slices.MaxFunc(all, func(a, b *excludedNode) int { return cmp.Compare(a.silent, b.silent) })
	delete(s.m, victim.addr)
}

// rank orders excluded nodes by how much depends on meeting them soon.
func rank(x *excludedNode) int {
	rank := 0
	if x.silent > 0 {
		rank += 2
	}
	if !x.voter {
		rank++
	}
	return rank
}

// next returns the addresses to probe in the next round: those that are silent last.
func (s *excludedNodes) next() []string {
	all := s.all()
	slices.SortStableFunc(all, func(a, b *excludedNode) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.lastProbe, b.lastProbe))
	})
	silentAt := slices.IndexFunc(all, func(x *excludedNode) bool { return x.silent > 0 })
	if silentAt < 0 {
		silentAt = len(all)
	}
	live, silent := all[:silentAt], all[silentAt:]
	live = share(live, probesMost-min(len(silent), silentMost))
	silent = share(silent, silentMost)
	addrs := make([]string, 0, len(live)+len(silent))
	for _, x := range slices.Concat(live, silent) {
		s.probes++
		x.lastProbe = s.probes
		addrs = append(addrs, x.addr)
	}
	return addrs
}

// share returns at most so many excluded nodes: the first, which vote, but where there are too many
// of them a quarter of the places is left to others.
func share(all []*excludedNode, most int) []*excludedNode {
	if len(all) <= most {
		return all
	}
	voters := slices.IndexFunc(all, func(x *excludedNode) bool { return !x.voter })
	if voters < 0 {
		return all[:most]
	}
	others := max(most-voters, min(most/4, len(all)-voters))
	return slices.Concat(all[:most-others], all[voters:voters+others])
}

// all returns all excluded nodes, in order of their addresses.
func (s *excludedNodes) all() []*excludedNode {
	all := make([]*excludedNode, 0, len(s.m))
	for _, x := range s.m {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *excludedNode) int { return cmp.Compare(a.addr, b.addr) })
	return all
}

// inOrder returns all addresses, those first on which most depends.
func (s *excludedNodes) inOrder() []string {
	all := s.all()
	slices.SortStableFunc(all, func(a, b *excludedNode) int { return cmp.Compare(rank(a), rank(b)) })
	addrs := make([]string, len(all))
	for i, x := range all {
		addrs[i] = x.addr
	}
	return addrs
}
