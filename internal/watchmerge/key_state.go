package watchmerge

import (
	"cmp"
	"container/list"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// keyState is the merged state of a key.
type keyState struct {
	held       []*leaseState          // in order of tokens
	pending    []*leaseState          // grants still to be reported, in order of tokens; see Merger.next
	newest     [4]vote.Token          // the newest reported token, by mode
	waiting    map[requestRef]*waiter // waiting requests, as far as they are remembered
	tombstones int                    // how many tombstones refer to the key
	querying   bool                   // a query for the key is in progress, since the key was in doubt
	doubt      *list.Element          // the key's place in Merger.doubts; nil if the key isn't in doubt
}

// leaseState is the merged state of a lease.
type leaseState struct {
	view           vote.View
	since          vote.Micros
	reportedBy     quorum.Set // voters with a report of the lease as held
	votedBy        quorum.Set // voters in heard with a vote for the lease
	endedBy        quorum.Set // voters with a report of an end without a release
	end            Kind       // how the lease has ended, if over: Released or Lost
	confirmed      bool       // confirmed: each voter of a majority has reported the lease
	sure           bool       // queries have shown the request to be a lease
	hits           int        // how many queries in a row have shown the lease
	misses         int        // how many queries in a row have not shown the lease
	shownHeld      bool       // some query has shown the lease as held, even if newer reports differ
	lastReport     uint64     // the value of Merger.reports at the newest report about the lease
	changesAtStart int        // the value of Merger.electorateChanges when the lease was first reported
}

// hasEnded reports whether the end of a lease is to be reported. During an upgrade a lease does not
// end, but changes; if the upgrade fails, the lease ends then.
func (k *keyState) hasEnded(c *leaseState) bool {
	return c.end != 0 && !slices.ContainsFunc(k.pending, func(o *leaseState) bool { return o.upgrades(c) })
}

func without(list []*leaseState, c *leaseState) []*leaseState {
	return slices.DeleteFunc(list, func(o *leaseState) bool { return o == c })
}

func (k *keyState) find(id requestRef) *leaseState {
	for _, list := range [][]*leaseState{k.held, k.pending} {
		for _, c := range list {
			if refOf(&c.view) == id {
				return c
			}
		}
	}
	return nil
}

// late reports whether a lease is first reported after a newer conflicting lease.
func (k *keyState) late(s *vote.View) bool {
	for mode, newest := range k.newest {
		if (vote.Mode(mode) != s.Mode || s.Mode == vote.Exclusive) && s.Token < newest {
			return true
		}
	}
	c := &leaseState{view: *s}
	return slices.ContainsFunc(k.held, func(h *leaseState) bool { return c.conflicts(h) && s.Token < h.view.Token })
}

// upgrades reports whether c replaces h, a shared lease of the same session.
func (l *leaseState) upgrades(h *leaseState) bool {
	return l.view.Beside != 0 && l.view.Beside == h.view.Number && l.view.Owner == h.view.Owner && h.view.Mode == vote.Shared
}

// conflicts reports whether two leases conflict: they can't be held at the same time.
func (l *leaseState) conflicts(h *leaseState) bool {
	switch {
	case l.upgrades(h):
		return false
	case l.view.Mode != h.view.Mode || l.view.Mode == vote.Exclusive:
		return true
	}
	return l.view.Mode == vote.Permit && l.view.Slot == h.view.Slot
}

func insert(list []*leaseState, c *leaseState) []*leaseState {
	i, _ := slices.BinarySearchFunc(list, c, func(a, b *leaseState) int {
		return cmp.Or(cmp.Compare(a.view.Token, b.view.Token), cmp.Compare(a.view.Owner.Node, b.view.Owner.Node),
			cmp.Compare(a.view.Number, b.view.Number))
	})
	return slices.Insert(list, i, c)
}
