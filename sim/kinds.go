package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Kind says what a key is to its users. The zero value is a lock that everybody wants for himself.
type Kind struct {
	Readers bool   // there are readers, who share the key, besides writers
	Permits uint16 // a semaphore of so many. With Readers requests of every mode come for one key, which is nobody's design and must do no harm
}

// Mix says how requests differ in worlds with kinds of keys. All are percents.
type Mix struct {
	Shared    int // of requests for a key with readers: readers
	Upgrade   int // of readers that ask for the key alone while they hold it
	Downgrade int // of writers that let others in beside them
	Length    int // of leases with a length of their own
	Fixed     int // of those: that aren't extended
	Delay     int // of leases whose key is kept from others after a lapse
	MinHold   int // of leases whose key is kept from others for a while in any case
	Value     int // of requests with a value
	Urge      int // of requests that ask holders for the key
	Unfit     int // of requests for permits that mistake their number

	// LengthLeast is the least length of its own that is drawn: with less no lease could be had over so slow a network.
	LengthLeast time.Duration
}

// permitsOf are the numbers of permits that semaphores are drawn with.
var permitsOf = []int{1, 2, 3, 5, 16}

// drawKinds gives two thirds of all worlds keys of several kinds. Its luck is its own, so the rest of the world is what it was without it.
func (o *Options) drawKinds() {
	r := rand.New(rand.NewPCG(o.Seed, 2))
	if r.IntN(3) == 0 {
		return
	}
	for range o.Load.Keys {
		var k Kind
		switch r.IntN(8) {
		case 0, 1: // a lock
		case 2, 3, 4:
			k.Readers = true
		case 5, 6:
			k.Permits = uint16(pickInt(r, permitsOf...))
		case 7:
			k = Kind{Readers: true, Permits: uint16(pickInt(r, permitsOf...))}
		}
		o.Load.Kinds = append(o.Load.Kinds, k)
	}
	o.Load.Mix = Mix{
		Shared: pickInt(r, 40, 80), Upgrade: pickInt(r, 0, 20, 50), Downgrade: pickInt(r, 0, 30),
		Length: pickInt(r, 0, 20, 50), Fixed: pickInt(r, 20, 50), Delay: pickInt(r, 0, 30), MinHold: pickInt(r, 0, 0, 30),
		Value: pickInt(r, 0, 20), Urge: pickInt(r, 0, 20), Unfit: pickInt(r, 0, 0, 10),
		// Sessions have twelve times the slowest way, too.
		LengthLeast: o.lengthLeast(),
	}
}

// lengthLeast is the least length that a lease can be had for over the network.
func (o *Options) lengthLeast() time.Duration {
	return min(o.MaxTTL, max(vote.MinTTL, 12*o.Net.Most*time.Duration(100+o.Net.Jitter)/100))
}

// drawKind draws what a request is besides what it is in a world of locks alone.
func (w *World) drawKind(h *host, c *client, k *lockKey, a *Ask) {
	l := &w.opt.Load
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
			a.Turn = within(c.luck, a.Hold) + 1
		}
	case kind.Readers && c.percent(m.Downgrade):
		a.Turn = within(c.luck, a.Hold) + 1
	}
	most := w.opt.MaxTTL
	if c.percent(m.Length) {
		a.Length, a.Fixed = m.LengthLeast+within(c.luck, most-m.LengthLeast), c.percent(m.Fixed)
	}
	if c.percent(m.Delay) {
		// What the voters have promised must be over when one that has forgotten it counts again: so long lasts the quiet time.
		last := h.ttl
		if a.Length > 0 {
			last = a.Length
		}
		if last < most {
			a.Delay = within(c.luck, most-last)
		}
	}
	if c.percent(m.MinHold) {
		a.MinHold = within(c.luck, most)
	}
	a.Value, a.Urge = c.percent(m.Value), c.percent(m.Urge)
}

// manner tells a request's wish, but for its key, where it is no plain lock.
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

// upgrade is what a reader asks for when it wants the key alone.
func (a Ask) upgrade() Ask {
	a.Mode, a.Turn, a.Try = vote.Exclusive, 0, false
	return a
}

// turns has a holder ask for more, or be content with less.
func (w *World) turns(r *Request) {
	c := &r.p.clients[r.client]
	switch r.Mode {
	case vote.Exclusive:
		w.share(r)
		w.plan(r.p, r.client, r.hold)
	case vote.Shared:
		u := w.ask(r.p, r.Ask.upgrade(), r)
		if u == nil {
			w.plan(r.p, r.client, r.hold)
			return
		}
		u.client, u.hold, r.up = r.client, r.hold, u
		c.due = never
		if r.Ask.Patience > 0 {
			w.plan(r.p, r.client, r.Ask.Patience)
		}
	}
	w.settle(r.p)
}

// upgraded has a reader that is granted the key alone give its reader's lease back, as the shell does.
func (w *World) upgraded(u *Request) {
	r, p := u.base, u.p
	w.mark(MarkUpgraded)
	r.up = nil
	if u.client >= 0 {
		p.clients[u.client].r = u
	}
	w.push(event{at: w.now + 1, kind: eventRun, p: p, f: func() { w.release(r) }})
}

// turned looks at a request that has ended and was, or had, an upgrade.
func (w *World) turned(r *Request) {
	p := r.p
	if b := r.base; b != nil && b.up == r { // it wasn't granted
		b.up = nil
		if r.client >= 0 && r.State == Failed && b.State == Granted {
			w.plan(p, r.client, 0) // so that others get on
		}
	}
	if u := r.up; u != nil { // the lease that it waits beside is lost
		r.up = nil
		if c := r.client; c >= 0 && p.clients[c].r == r {
			p.clients[c].r = u
			w.plan(p, c, 0) // it gives up
		}
	}
}

// share has a writer let others in beside it.
func (w *World) share(r *Request) {
	now := r.p.read(w.now)
	if r.State != Granted || r.Mode != vote.Exclusive {
		return
	}
	w.note(r.p.host, "lets others in beside request %d", r.Number)
	seat := r.p.asked[r.seat]                    // whose vote it is, if the lease was passed on
	r.Mode, seat.Mode = vote.Shared, vote.Shared // before, as the node's own voter may let others in at once
	if !r.p.m.Share(now, r.Number) {
		r.Mode, seat.Mode = vote.Exclusive, vote.Exclusive // it has just ended, which is told by an event
		return
	}
	w.hist.shared(w, r)
	r.shared, r.key.changed = w.now, w.now
}

// values gives a lease a value, from within an event of its node.
func (w *World) values(r *Request) {
	w.push(event{at: w.now + 1, kind: eventRun, p: r.p, f: func() {
		if r.State == Granted {
			r.p.m.Set(r.p.read(w.now), r.Number, []byte("holds"))
			w.settle(r.p)
		}
	}})
}
