package transport

import (
	"net/netip"
	"slices"
	"time"
)

// room holds a bounded number of visitors: connections at the same stage of the handshake. When the
// room is full, a newcomer evicts the oldest connection of the source with the most connections. So
// a source holding many places competes with itself, and a newcomer always gets in. The lock of the
// room's owner guards the room.
type room struct {
	most      int // visitors
	perSource int // visitors per source

	visitors []*visitor // the oldest first
	bySource map[netip.Addr]int
}

// visitor is a connection in a room.
type visitor struct {
	source netip.Addr // the address or network, as returned by sourceOf
	known  bool       // the source is the address of a member
	leave  func()     // ends the connection, without blocking
	in     *room      // nil outside any room
	since  time.Time  // when the visitor entered in
}

// sourceOf returns the source of an address: an IPv4 address itself, or an IPv6 /64 network, of
// which one machine may use any address.
func sourceOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if p, err := a.Prefix(64); err == nil && a.Is6() {
		return p.Addr()
	}
	return a
}

// inTheWay returns the visitor to evict for a newcomer of a source; nil for none.
func (r *room) inTheWay(from netip.Addr) *visitor {
	if r.bySource[from] < r.perSource {
		if len(r.visitors) < r.most {
			return nil
		}
		heaviest := 0
		// in order of age, so that a tie doesn't depend on the map's order
		for _, v := range r.visitors {
			if n := r.bySource[v.source]; n > heaviest {
				heaviest, from = n, v.source
			}
		}
	}
	return r.visitors[slices.IndexFunc(r.visitors, func(v *visitor) bool { return v.source == from })]
}

func (r *room) add(v *visitor, now time.Time) {
	if r.bySource == nil {
		r.bySource = make(map[netip.Addr]int)
	}
	v.in, v.since = r, now
	r.visitors = append(r.visitors, v)
	r.bySource[v.source]++
}

// remove takes a visitor out of its room, if any.
func (v *visitor) remove() {
	r := v.in
	if r == nil {
		return
	}
	v.in = nil
	i := slices.Index(r.visitors, v)
	r.visitors = slices.Delete(r.visitors, i, i+1)
	if r.bySource[v.source]--; r.bySource[v.source] == 0 {
		delete(r.bySource, v.source)
	}
}
