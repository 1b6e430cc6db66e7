package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// Kind says how a key is used. The zero value is a plain exclusive lock.
type Kind struct {
	Readers bool // readers share the key; there are writers, too
	// Permits makes the key a semaphore of this size. With Readers, requests of every mode ask for
	// the key: no application is designed like this, but such requests must do no harm.
	Permits uint16
}

// Mix says how requests differ in worlds with several kinds of keys. The numbers are percentages.
type Mix struct {
	Shared    int // readers, of the requests for a key with readers
	Upgrade   int // readers that upgrade while they hold the key
	Downgrade int // writers that downgrade their lease to shared
	Length    int // leases with a length of their own
	Fixed     int // fixed leases (never extended), of the leases with a length
	Delay     int // leases with a delay, which keeps the key from others after a lapse
	MinHold   int // leases with a minimum hold, which keeps the key from others in any case
	Value     int // requests with a value
	Revoke    int // requests with a revoke request to the holders
	Unfit     int // permit requests with a wrong number of permits

	// LengthLeast is the least length drawn for leases: over a network this slow, no shorter lease
	// could be won.
	LengthLeast time.Duration
	LengthMost  time.Duration // the largest length drawn; zero for the maximum TTL
}

// permitsOf lists the sizes of semaphores to draw from.
var permitsOf = []int{1, 2, 3, 5, 16}

// drawKinds gives two thirds of all worlds keys of several kinds.
func (o *Options) drawKinds() {
	d := draws{o.Seed, "kinds"}
	if d.intN("one-kind", 3) == 0 {
		return
	}
	r := d.rng("keys")
	for range o.Load.Keys {
		var k Kind
		switch r.IntN(8) {
		case 0, 1: // a lock
		case 2, 3, 4:
			k.Readers = true
		case 5, 6:
			k.Permits = uint16(permitsOf[r.IntN(len(permitsOf))])
		case 7:
			k = Kind{Readers: true, Permits: uint16(permitsOf[r.IntN(len(permitsOf))])}
		}
		o.Load.Kinds = append(o.Load.Kinds, k)
	}
	o.Load.Mix = Mix{
		Shared: d.pickInt("shared", 40, 80), Upgrade: d.pickInt("upgrade", 0, 20, 50), Downgrade: d.pickInt("downgrade", 0, 30),
		Length: d.pickInt("length", 0, 20, 50), Fixed: d.pickInt("fixed", 20, 50), Delay: d.pickInt("delay", 0, 30), MinHold: d.pickInt("minhold", 0, 0, 30),
		Value: d.pickInt("value", 0, 20), Revoke: d.pickInt("urge", 0, 20), Unfit: d.pickInt("unfit", 0, 0, 10),
		// Sessions last for at least twelve times the slowest way, too.
		LengthLeast: o.lengthLeast(),
	}
	if d.intN("outliving", 8) == 0 {
		o.outliving()
	}
}

// outliving makes a world of readers that become writers, with leases of short lengths of their own
// and delays: votes outlast their length at voters that are out of reach for a while, and stay
// there as residual votes beside the votes that follow.
func (o *Options) outliving() {
	o.Load.Keys, o.Load.Kinds = 1, []Kind{{Readers: true}}
	m := &o.Load.Mix
	m.Shared, m.Upgrade, m.Length, m.Fixed, m.Delay = 90, 60, 90, 5, 90
	m.LengthMost = max(o.MaxTTL/4, 2*m.LengthLeast)
	o.Load.Hold, o.Load.Think, o.Load.Clients = o.MaxTTL, o.MaxTTL/10, max(o.Load.Clients, 3)
	o.Faults.Every = o.MaxTTL / 4
	for f := range o.Faults.Weights {
		o.Faults.Weights[f] = min(o.Faults.Weights[f], 1)
	}
	o.Faults.Weights[fault.Link], o.Faults.Weights[fault.OneWay] = 8, 4
}

// lengthLeast returns the shortest length with which a lease can be won over the network.
func (o *Options) lengthLeast() time.Duration {
	return min(o.MaxTTL, max(vote.MinTTL, 12*o.Net.Most*time.Duration(100+o.Net.Jitter)/100))
}

// drawKind draws the options of a request that don't exist in a world of plain locks.
func (ld *load) drawKind(h *host, c *client, k *lockKey, a *Ask) {
	l := &ld.w.opt.Load
	if len(l.Kinds) == 0 {
		return
	}
	m, kind := &l.Mix, Kind{}
	if k.i < len(l.Kinds) {
		kind = l.Kinds[k.i]
	}
	switch {
	case kind.Permits > 0 && (!kind.Readers || c.percent(50)):
		a.Mode, a.Permits = vote.Permit, kind.Permits
		if c.percent(m.Unfit) {
			a.Permits++
		}
	case kind.Readers && c.percent(m.Shared):
		a.Mode = vote.Shared
		if c.percent(m.Upgrade) {
			a.Turn = fault.Within(c.rng, a.Hold) + 1
		}
	case kind.Readers && c.percent(m.Downgrade):
		a.Turn = fault.Within(c.rng, a.Hold) + 1
	}
	longest, most := ld.w.opt.MaxTTL, h.least
	if m.LengthMost > 0 {
		longest = min(longest, m.LengthMost)
	}
	if c.percent(m.Length) {
		a.Length, a.Fixed = m.LengthLeast+fault.Within(c.rng, longest-m.LengthLeast), c.percent(m.Fixed)
		if a.Fixed && a.Length > most {
			a.Fixed = false // the shell keeps up such a lease, and ends it
		}
	}
	if c.percent(m.Delay) {
		// A voter that has forgotten its promises counts again after its startup quarantine, the
		// maximum TTL. The lease and its delay must be over by then.
		last := h.ttl
		if a.Length > 0 {
			last = a.Length
		}
		if last < most {
			a.Delay = fault.Within(c.rng, most-last)
		}
	}
	if c.percent(m.MinHold) {
		// The shell enforces the rest of a longer minimum hold.
		a.MinHold = fault.Within(c.rng, vote.MaxKept(most))
	}
	a.Value, a.Revoke = c.percent(m.Value), c.percent(m.Revoke)
}

// manner describes a request's options besides the key; the text is empty for a plain lock.
func (r *Request) manner() string {
	var b strings.Builder
	a := &r.Ask
	if a.Mode > vote.Exclusive {
		fmt.Fprintf(&b, ", %v", a.Mode)
	}
	if a.Permits > 0 {
		fmt.Fprintf(&b, " of %d", a.Permits)
	}
	if r.base != nil {
		fmt.Fprintf(&b, ", beside %d", r.base.Number)
	}
	for _, x := range []struct {
		name string
		d    time.Duration
	}{{"length", a.Length}, {"delay", a.Delay}, {"held at least", a.MinHold}} {
		if x.d > 0 {
			fmt.Fprintf(&b, ", %s %v", x.name, x.d)
		}
	}
	if a.Fixed {
		b.WriteString(", not extended")
	}
	return b.String()
}

// upgrade returns the exclusive request with which a reader upgrades its lease.
func (a Ask) upgrade() Ask {
	a.Mode, a.Turn, a.Try = vote.Exclusive, 0, false
	return a
}

// turns has a holder change its lease: a writer downgrades to shared, a reader asks for an upgrade.
func (ld *load) turns(r *Request) {
	c := &r.p.clients[r.client]
	switch r.Mode {
	case vote.Exclusive:
		ld.share(r)
		ld.plan(r.p, r.client, r.hold)
	case vote.Shared:
		u := ld.ask(r.p, r.Ask.upgrade(), r)
		if u == nil {
			ld.plan(r.p, r.client, r.hold)
			return
		}
		u.client, u.hold, r.up = r.client, r.hold, u
		c.due = never
		if r.Ask.Patience > 0 {
			ld.plan(r.p, r.client, r.Ask.Patience)
		}
	}
	ld.w.settle(r.p)
}

// upgraded has a reader release its shared lease after its upgrade was granted, as the shell does.
func (ld *load) upgraded(u *Request) {
	r, p := u.base, u.p
	ld.w.marks.mark(markUpgraded)
	r.up = nil
	if u.client >= 0 {
		p.clients[u.client].r = u
	}
	ld.w.push(event{at: ld.w.now + 1, kind: eventRun, p: p, f: func() { ld.release(r) }})
}

// turned handles the end of a request that was an upgrade, or had an upgrade waiting beside it.
func (ld *load) turned(r *Request) {
	p := r.p
	if b := r.base; b != nil && b.up == r { // the upgrade wasn't granted
		b.up = nil
		if r.client >= 0 && r.State == Failed && b.State == Granted {
			ld.plan(p, r.client, 0) // release the shared lease, so that other requests proceed
		}
	}
	if u := r.up; u != nil { // the shared lease beside which the upgrade waits is lost
		r.up = nil
		if c := r.client; c >= 0 && p.clients[c].r == r {
			p.clients[c].r = u
			ld.plan(p, c, 0) // give the upgrade up
		}
	}
}

// share has a writer downgrade its lease to shared.
func (ld *load) share(r *Request) {
	now := r.p.read(ld.w.now)
	if r.State != Granted || r.Mode != vote.Exclusive {
		return
	}
	ld.w.note(r.p.host, "lets others in beside request %d", r.Number)
	// front is the request that the voters know, if the lease was handed off. Both modes change
	// before Downgrade, since the node's own voter may admit others at once.
	front := r.p.asked[r.Alias]
	r.Mode, front.Mode = vote.Shared, vote.Shared
	if !r.p.m.Downgrade(now, r.Number) {
		r.Mode, front.Mode = vote.Exclusive, vote.Exclusive // the lease just ended; an event follows
		return
	}
	ld.w.histories.shared(r)
	r.shared, r.key.changed = ld.w.now, ld.w.now
}

// mostValues is how many values a lease has, one after the other.
const mostValues = 4

// valueOf returns the value of a version.
func valueOf(version uint64) []byte { return fmt.Appendf(nil, "value %d", version) }

// values gives a lease a new value. Its caller handles an event of the lease's node, so values
// schedules another event.
func (ld *load) values(r *Request) {
	ld.w.push(event{at: ld.w.now + 1, kind: eventRun, p: r.p, f: func() {
		if r.State == Granted {
			r.set++
			if version := r.p.m.SetValue(r.p.read(ld.w.now), r.Number, valueOf(r.set)); version != r.set && version != 0 {
				ld.w.judge.violate(checkSeen, "%s gives its lease of %q value %d, and it counts as version %d", r.Node, r.Key, r.set, version)
			}
			ld.w.settle(r.p)
		}
	}})
}

// noted takes note of a value that a majority has confirmed, and gives the lease the next value.
func (ld *load) noted(p *process, e *quorum.Event) {
	if int(e.Number) >= len(p.asked) {
		return
	}
	r := p.asked[e.Number]
	if e.Version > r.set {
		ld.w.judge.violate(checkSeen, "%s is told that a majority has version %d of its value of %q, and has set %d", p.host.alias, e.Version, r.Key, r.set)
	}
	r.noted = max(r.noted, e.Version)
	if r.State == Granted && r.noted == r.set && r.set < mostValues {
		ld.values(r)
	}
}
