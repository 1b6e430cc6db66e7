package transport

import (
	"math"
	"time"
)

const (
	// linksOfOne is how many incoming connections of a process are kept. A process needs only one;
	// while a process reconnects, this node may not yet know of the end of the old connection.
	linksOfOne = 4

	// idleTime is the minimum time without a message until an incoming connection is closed. A
	// process that dials a voter refreshes its session several times per TTL, with or without
	// leases, so the limit is twice the longer MaxTTL of both sides, or idleTime if longer.
	idleTime = time.Minute
)

// hear records the arrival of a message.
func (l *link) hear() { l.heard.Store(int64(time.Since(l.port.opened))) }

// oneTooMany returns the connection of l's process to close since l is added; nil for none. mu is
// held.
func (p *Port) oneTooMany(l *link) (oldest *link) {
	if l.dialed {
		return nil
	}
	n := 1
	for _, other := range *p.links.Load() {
		if other.dialed || other.peer != l.peer || other.replaced {
			continue
		}
		n++
		if oldest == nil || other.heard.Load() < oldest.heard.Load() {
			oldest = other
		}
	}
	if n <= linksOfOne {
		return nil
	}
	oldest.replaced = true
	return oldest
}

// idleLimit returns for how long a peer with a MaxTTL may send nothing.
func (p *Port) idleLimit(peers time.Duration) time.Duration {
	longer := min(max(p.own.terms.MaxTTL, peers), math.MaxInt64/2)
	return max(p.build.idleTime, 2*longer)
}

// endIdle closes incoming connections without recent messages, until the port closes.
func (p *Port) endIdle() {
	defer p.running.Done()
	for p.sleep(p.idleLimit(0) / 4) {
		now := time.Since(p.opened)
		for _, l := range *p.links.Load() {
			if !l.dialed && now-time.Duration(l.heard.Load()) > l.idle {
				l.fail(errIdle)
			}
		}
	}
}
