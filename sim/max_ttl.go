package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// MaxTTLChange is the restart of a host with another maximum TTL in its configuration.
type MaxTTLChange struct {
	At     time.Duration
	Host   string
	MaxTTL time.Duration
	Down   time.Duration // how long the host is down
}

// maxTTLs is the part of the world used only where nodes are configured with different maximum TTLs
// under dynamic membership.
type maxTTLs struct {
	w *World
	// the maximum TTL of each host's next process; empty: Options.MaxTTL everywhere
	configured map[*host]time.Duration
}

func (m *maxTTLs) setUpMaxTTLs() {
	f := m.w.opt.Dynamic
	if f == nil {
		return
	}
	m.configured = make(map[*host]time.Duration)
	for _, h := range m.w.hosts {
		m.configured[h] = cmp.Or(f.MaxTTL, m.w.opt.MaxTTL)
	}
	for _, c := range f.MaxTTLChanges {
		m.w.At(c.At, func() {
			// The founding waits until all founders are configured alike.
			if m.w.dynamic.newest > 0 && !m.w.faults.healed {
				m.w.ChangeMaxTTL(c.Host, c.MaxTTL, c.Down)
			}
		})
	}
}

// ChangeMaxTTL restarts a node with another maximum TTL in its configuration, after a while.
// Options.MaxTTL must be the largest of all.
func (w *World) ChangeMaxTTL(node string, maxTTL, down time.Duration) {
	h := w.host(node)
	w.maxTTLs.configured[h] = maxTTL
	w.note(h, "is configured with the maximum TTL %v", maxTTL)
	if w.crash(h, endingAtOnce, nil) {
		w.faults.bringBack(h, down)
	}
}

// configuredTTL returns the maximum TTL that the next process of a host is configured with.
func (m *maxTTLs) configuredTTL(h *host) time.Duration {
	if d, ok := m.configured[h]; ok {
		return d
	}
	return m.w.opt.MaxTTL
}

// grants returns for how long a voter that applies a version of the electorate extends a session or
// a vote, if asked for d.
func (m *maxTTLs) grants(version uint64, d time.Duration) time.Duration {
	e, ok := m.w.dynamic.decided[version]
	if !ok {
		return d
	}
	return min(d, e.GrantLimit(m.w.opt.MaxTTL))
}

// leastTTL returns the least maximum TTL that may ever be decided in the world.
func (o *Options) leastTTL() time.Duration {
	least := o.MaxTTL
	if f := o.Dynamic; f != nil {
		least = min(least, cmp.Or(f.MaxTTL, least), cmp.Or(f.LeastTTL, least))
		for _, c := range f.MaxTTLChanges {
			least = min(least, c.MaxTTL)
		}
	}
	return least
}

// drawMaxTTLChanges has the nodes of a third of all worlds with dynamic membership configured with
// other maximum TTLs, one after the other, and some of them back again. The danger is a voter that
// promises for a long time, restarts under a shorter maximum, and is quiet for that only.
// Options.MaxTTL is the largest.
func (o *Options) drawMaxTTLChanges() {
	r := rand.New(fault.Chance(o.Seed, "max ttl"))
	if r.IntN(3) > 0 || o.MaxTTL/2 < vote.MinTTL {
		return
	}
	values := []time.Duration{o.MaxTTL, o.MaxTTL / 2}
	if o.MaxTTL/3 >= vote.MinTTL {
		values = append(values, o.MaxTTL/3)
	}
	f := o.Dynamic
	f.MaxTTL = values[r.IntN(len(values))]
	at := fault.Within(r, 6*o.MaxTTL)
	for range 1 + r.IntN(4) {
		next := values[r.IntN(len(values))]
		hosts := slices.Clone(o.NodeNames())
		r.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		pace := fault.Within(r, 3*o.MaxTTL)
		for _, h := range hosts[:1+r.IntN(len(hosts))] {
			f.MaxTTLChanges = append(f.MaxTTLChanges, MaxTTLChange{At: at, Host: h, MaxTTL: next, Down: fault.Within(r, o.MaxTTL/2)})
			at += pace/2 + fault.Within(r, pace+1)
		}
		at += fault.Within(r, 4*o.MaxTTL)
	}
}
