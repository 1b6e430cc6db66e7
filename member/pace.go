package member

import "time"

// A persistent complaint is logged at once, and then again after doubling gaps.
const (
	gapMin = 10 * time.Second // soon enough for an operator watching the log
	gapMax = 10 * time.Minute // often enough for an operator reading the last hour's log
)

// pace determines when a complaint is due. Its zero value is due at once. The user of a pace guards
// it.
type pace struct {
	next time.Time
	gap  time.Duration
}

// due reports whether to complain now, and if so schedules the next complaint.
func (p *pace) due(now time.Time) bool {
	if now.Before(p.next) {
		return false
	}
	p.gap = min(max(2*p.gap, gapMin), gapMax)
	p.next = now.Add(p.gap)
	return true
}

// pacesMax bounds how many complaints are tracked. Peers choose the keys; beyond pacesMax all paces
// are reset, at the cost of a few more log lines.
const pacesMax = 256

// paces holds one pace for each key. The user of paces guards them.
type paces map[string]*pace

func (p paces) due(key string, now time.Time) bool {
	one := p[key]
	if one == nil {
		if len(p) >= pacesMax {
			clear(p)
		}
		one = &pace{}
		p[key] = one
	}
	return one.due(now)
}
