package sim

import (
	"iter"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/sim/check"
)

// exclusionCheck feeds [check.Exclusion].
type exclusionCheck struct{ w *World }

// checkExclusion demands that a new lease is compatible with all leases that are held, and that no
// ended lease still keeps the key from the new lease.
func (ec *exclusionCheck) checkExclusion(r *Request) {
	k, now := r.key, ec.w.now
	k.past = slices.DeleteFunc(k.past, func(o *Request) bool { return o.KeptUntil() <= now })
	x := check.Exclusion{TokensOnly: ec.w.opt.TokensOnly, Report: ec.w.judge.violate}
	ec.w.fig.Overlaps += x.Granted(now, &r.Lease, ec.held(k), ec.over(k))
}

// held returns the leases of a key in which their holders believe, and how long each lasts yet.
func (ec *exclusionCheck) held(k *lockKey) iter.Seq2[*check.Lease, time.Duration] {
	return func(yield func(*check.Lease, time.Duration) bool) {
		for _, o := range k.holds {
			if ec.w.judge.believes(o) && !yield(&o.Lease, o.p.left(ec.w.now, o.end)) {
				return
			}
		}
	}
}

// over returns the leases of a key in which their holders don't believe any more.
func (ec *exclusionCheck) over(k *lockKey) iter.Seq[*check.Lease] {
	return func(yield func(*check.Lease) bool) {
		for _, list := range [][]*Request{k.holds, k.past} {
			for _, o := range list {
				if !ec.w.judge.believes(o) && !yield(&o.Lease) {
					return
				}
			}
		}
	}
}
