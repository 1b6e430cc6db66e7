package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// resources draws when holders write to the resources behind the keys. It has a random generator of
// its own, and changes nothing for the mesh.
//
// Each key protects a [check.Resource]. A holder checks that its lease is still held, and then
// writes. Between the two, a pause may delay the write until far too late. Fencing tokens are meant
// for this case, so the resource is checked whatever the clocks do.
type resources struct {
	w   *World
	rng *rand.Rand
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
		at := time.Duration(rs.rng.Int64N(int64(2*rs.w.opt.Load.Hold + time.Millisecond)))
		travel := time.Duration(rs.rng.Int64N(int64(2 * time.Millisecond)))
		if rs.rng.IntN(100) < lateWrites {
			travel = time.Duration(rs.rng.Int64N(int64(lateTTLs * rs.w.opt.MaxTTL)))
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
	if r.key.resource.Read(&r.Lease, rs.w.judge.believes(r)) {
		rs.w.fig.Reads++
	} else {
		rs.w.fig.Fenced++
	}
}

// written handles a write on arrival at the resource.
func (rs *resources) written(r *Request) {
	if r.key.resource.Write(&r.Lease, rs.w.judge.believes(r)) {
		rs.w.fig.Writes++
		return
	}
	rs.w.fig.Fenced++
	rs.w.marks.mark(markFenced)
}
