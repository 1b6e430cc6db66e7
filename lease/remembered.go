package lease

import (
	"sort"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// newsMax is how many of the newest events a voter remembers for watches, and how many older events
// of watched keys. A watch that comes back later has missed events, and is told of a gap. The
// limits are for bursts: a node's many leases may begin and end at once, and a watch far away
// receives the events in messages of [vote.MaxViews], one in a round trip. At about 200 bytes each,
// the events take at most 6.6 MB, in addition to the values.
const newsMax = 1 << 14

// remembered has the events that watches may still need. Its size is bounded, whether the events
// are read or not, so a slow reader can't hold up anything.
//
// A burst of events of other keys doesn't push out the events of watched keys: between an answer
// and the next question of a watch, thousands of leases may begin and end.
type remembered struct {
	seq   uint64      // of the newest event
	ring  []vote.View // the newest events, each at the index by its number
	base  uint64      // the number of the event before the first event ever added
	older []olderEvent
	lost  uint64 // the newest event of a watched key that was forgotten
}

// olderEvent is an event of a watched key that was pushed out of the ring.
type olderEvent struct {
	seq  uint64
	view vote.View
}

// forgotten returns the number of the newest event pushed out of the ring.
func (r *remembered) forgotten() uint64 { return r.seq - uint64(len(r.ring)) }

// add remembers an event. watched reports whether a watch may still need an event of a key.
func (r *remembered) add(s *vote.View, watched func(vote.Key) bool) {
	if len(r.ring) == 0 {
		r.base = r.seq
	}
	r.seq++
	if len(r.ring) < newsMax {
		r.ring = append(r.ring, *s)
		return
	}
	out := r.at(r.seq)
	if watched(out.Key) {
		if len(r.older) >= newsMax {
			half := len(r.older) / 2
			r.lost = r.older[half-1].seq
			n := copy(r.older, r.older[half:])
			clear(r.older[n:])
			r.older = r.older[:n]
		}
		r.older = append(r.older, olderEvent{r.seq - newsMax, *out})
	}
	*out = *s
}

// after returns the first older event that follows an event, as an index of older, and the number
// of the first event in the ring that does.
func (r *remembered) after(seq uint64) (older int, ring uint64) {
	older = sort.Search(len(r.older), func(i int) bool { return r.older[i].seq > seq })
	return older, max(seq, r.forgotten()) + 1
}

// at returns an event in the ring.
func (r *remembered) at(seq uint64) *vote.View { return &r.ring[(seq-r.base-1)%newsMax] }
