package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// resources draws when holders write to the resources behind the keys. It has a random generator of
// its own, and changes nothing for the mesh.
//
// Each key protects a resource, which accepts a write unless it has seen a larger token than the
// write's. A holder checks that its lease is still held, and then writes. Between the two, a pause
// may delay the write until far too late. Fencing tokens are meant for this case, so the resource
// is checked whatever the clocks do.
type resources struct {
	w            *World
	resourceLuck *rand.Rand
}

// lateWrites is how many writes of a hundred are held up between check and arrival, for up to
// lateTTLs maximum TTLs.
const (
	lateWrites = 20
	lateTTLs   = 3
)

// writes schedules two writes of a holder during its hold. Readers read instead, and the resource
// refuses a read after a write with a larger token. A semaphore stands for as many resources as it
// has permits.
func (rs *resources) writes(r *Request) {
	for range 2 {
		at := time.Duration(rs.resourceLuck.Int64N(int64(2*rs.w.opt.Load.Hold + time.Millisecond)))
		travel := time.Duration(rs.resourceLuck.Int64N(int64(2 * time.Millisecond)))
		if rs.resourceLuck.IntN(100) < lateWrites {
			travel = time.Duration(rs.resourceLuck.Int64N(int64(lateTTLs * rs.w.opt.MaxTTL)))
		}
		rs.w.At(at, func() {
			if !rs.w.judge.believes(r) || r.p.host.hung != pauseNone {
				return
			}
			if reads := r.Mode == vote.Shared; reads {
				rs.w.At(travel, func() { rs.read(r) })
			} else {
				rs.w.At(travel, func() { rs.written(r) })
			}
		})
	}
}

// read handles a read on arrival at the resource.
func (rs *resources) read(r *Request) {
	switch last := r.key.written[0]; {
	case last == nil || r.last() >= last.Token || r.era != last.era:
		rs.w.fig.Reads++
	case !rs.w.opt.TokensOnly && rs.w.judge.believes(r):
		rs.w.judge.violate(checkResource, "%q refuses to be read by %s, which holds it with token %d, as %s wrote with %d", r.Key, r.Node, r.Token,
			last.Node, last.Token)
	default:
		rs.w.fig.Fenced++
	}
}

// written handles a write on arrival at the resource.
func (rs *resources) written(r *Request) {
	k := r.key
	last := k.written[r.Slot]
	switch {
	case last == nil || r.Token > last.Token:
		k.written[r.Slot] = r
		rs.w.fig.Writes++
		if last != nil && r.before(last) && r.era == last.era {
			rs.w.judge.violate(checkResource, "%q takes %s's write with token %d after one of %s with %d, who asked when %s had been granted it", k.name, r.Node,
				r.Token, last.Node, last.Token, r.Node)
		}
	case r == last, r.Token == last.Token && r.era != last.era:
		rs.w.fig.Writes++
	case r.Token == last.Token:
		rs.w.judge.violate(checkResource, "%q takes writes of %s and of %s, whose tokens are both %d", k.name, r.Node, last.Node, r.Token)
	default:
		rs.w.fig.Fenced++
		rs.w.marks.mark(MarkFenced)
		if last.before(r) && r.era == last.era {
			rs.w.judge.violate(checkResource, "%q refuses a write of %s with token %d after one of %s with %d, whose lease is the older one", k.name, r.Node,
				r.Token, last.Node, last.Token)
		} else if !rs.w.opt.TokensOnly && rs.w.judge.believes(r) && r.era == last.era {
			rs.w.judge.violate(checkResource, "%q refuses a write of %s, which holds it with token %d, as %s wrote with %d", k.name, r.Node, r.Token,
				last.Node, last.Token)
		}
	}
}

// before reports whether r was granted before o was asked for. If so, r's token must be smaller,
// however late either node learned of its success.
func (r *Request) before(o *Request) bool { return r.Had < o.Asked }

// outOfOrder returns a lease granted before r was asked for, and yet with a token at least as
// large; nil if there is none.
func (k *lockKey) outOfOrder(r *Request) *Request {
	i, _ := slices.BinarySearchFunc(k.tops, r.Asked, func(top *Request, at time.Duration) int { return cmp.Compare(top.Had, at) })
	if i > 0 && k.tops[i-1].last() >= r.Token {
		return k.tops[i-1]
	}
	return nil
}

// topped records a new lease's token, and reports whether the token is above all earlier tokens. A
// lease with an excused smaller token begins a new era: tokens rise only within an era.
func (k *lockKey) topped(r *Request, excused bool) bool {
	if excused {
		k.tops, k.runs, k.last, k.alone = nil, nil, 0, 0
		clear(k.slots)
		k.era++
	}
	r.era = k.era
	last := r.last()
	i, _ := slices.BinarySearch(k.runs, last)
	k.runs = slices.Insert(k.runs, i, last)
	k.last = max(k.last, last)
	switch r.Mode {
	case vote.Exclusive:
		k.alone = max(k.alone, last)
	case vote.Permit:
		k.slots[r.Slot] = max(k.slots[r.Slot], last)
	}
	if n := len(k.tops); n > 0 && last <= k.tops[n-1].last() {
		return false
	}
	k.tops = append(k.tops, r)
	return true
}
