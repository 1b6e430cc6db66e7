package member

import "time"

// A complaint that stays true is made at once, and then again after a gap that doubles.
const (
	gapMin = 10 * time.Second // soon enough for someone who is watching
	gapMax = 10 * time.Minute // often enough for someone who looks at the last hour's log
)

// pace says when a complaint is due. Its zero value is due at once. Its user guards it.
type pace struct {
	next time.Time
	gap  time.Duration
}

// due reports whether to complain now, and if so counts it as done.
func (p *pace) due(now time.Time) bool {
	if now.Before(p.next) {
		return false
	}
	p.gap = min(max(2*p.gap, gapMin), gapMax)
	p.next = now.Add(p.gap)
	return true
}

// pacesMax bounds how many complaints are told apart. Peers choose the keys; beyond it all start anew, which costs a few
// more lines in the log.
const pacesMax = 256

// paces holds one pace for each key. Its user guards it.
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
