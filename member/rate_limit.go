package member

import "time"

// A persistent complaint is logged at once, and then again after doubling gaps.
const (
	gapMin = 10 * time.Second // soon enough for an operator watching the log
	gapMax = 10 * time.Minute // often enough for an operator reading the last hour's log
)

// rateLimit determines when a complaint is due. Its zero value is due at once. The user of a
// rateLimit guards it.
type rateLimit struct {
	next time.Time
	gap  time.Duration
}

// due reports whether to complain now, and if so schedules the next complaint.
func (r *rateLimit) due(now time.Time) bool {
	if now.Before(r.next) {
		return false
	}
	r.gap = min(max(2*r.gap, gapMin), gapMax)
	r.next = now.Add(r.gap)
	return true
}

// rateLimitsMax bounds how many complaints are tracked. Peers choose the keys; beyond rateLimitsMax
// all limits are reset, at the cost of a few more log lines.
const rateLimitsMax = 256

// rateLimits holds one rateLimit for each key. The user of rateLimits guards them.
type rateLimits map[string]*rateLimit

func (r rateLimits) due(key string, now time.Time) bool {
	one := r[key]
	if one == nil {
		if len(r) >= rateLimitsMax {
			clear(r)
		}
		one = &rateLimit{}
		r[key] = one
	}
	return one.due(now)
}
