package explore

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

// host is an incarnation of a node, with the users of a client node: a user for each key.
type host struct {
	m           Machine
	incarnation uint8
	users       [maxKeys]user
	// validUntil is until when each lease group is valid, as the node reported.
	validUntil map[quorum.GroupID]vote.Instant
}

type userState uint8

const (
	idle userState = iota
	waiting
	holding
)

// user is the application, with the state that a shell keeps for the application: the requested or
// held lease, and an upgrade of the lease if one is under way.
type user struct {
	claim
	up claim
}

type claim struct {
	state  userState
	mode   vote.Mode
	slot   vote.Slot
	number vote.Number
	group  quorum.GroupID
	until  vote.Instant // until when the group is valid
}

func (u user) waits() bool { return u.state == waiting || u.up.state == waiting }

// act applies an input to a node. The host is changed; h is nil when the node starts.
func (x *explorer) act(h *host, o input) (after *host, out *outcome) {
	out = &outcome{}
	after = h
	resorts := lastResorts(h)
	defer func() {
		if r := recover(); r != nil {
			out.wrong = fmt.Sprintf("%s panics: %v\n%s", x.names[o.node], r, debug.Stack())
		}
	}()
	now := x.now(int(o.node), o.tick)
	switch o.kind {
	case onStart:
		m, err := x.o.Build(node.Config{
			Name: x.names[o.node], Incarnation: x.incarnation(int(o.node), o.incarnation), Voters: x.names[:x.o.Voters], TTL: ttl, MaxTTL: ttl, BroadcastAll: true, NoReceipts: true,
		}, now)
		if err != nil {
			panic(err)
		}
		h = &host{m: m, incarnation: o.incarnation, validUntil: map[quorum.GroupID]vote.Instant{}}
		after = h
		x.linkIdle(h, now, int(o.node))
	case onDeliver:
		m := x.words.message(o.msg)
		untidy(&m, now, x.now(int(o.peer), o.tick).Wall)
		h.m.Deliver(now, o.conn, x.session(o.peer, o.incarnation), &m)
	case onTick:
		h.m.Tick(now)
	case onLock, onTry:
		spec := vote.Spec{Key: keyNames[o.key], Mode: x.o.Modes[x.client(int(o.node))], Try: o.kind == onTry}
		if spec.Mode == vote.Permit {
			spec.Permits = uint16(x.o.Permits)
		}
		h.users[o.key].claim = x.lock(h, now, spec)
	case onUpgrade:
		u := &h.users[o.key]
		u.up = x.lock(h, now, vote.Spec{Key: keyNames[o.key], Mode: vote.Exclusive, Beside: u.number})
	case onShare:
		if u := &h.users[o.key]; h.m.Downgrade(now, u.number) {
			u.mode = vote.Shared
		}
	case onRelease:
		u := &h.users[o.key]
		ends := &u.claim
		if u.up.state == waiting {
			ends = &u.up
		}
		h.m.Release(now, ends.number)
		*ends = claim{}
	case onLink:
		h.m.Link(now, o.conn, x.session(o.peer, o.incarnation))
	case onUnlink:
		h.m.Unlink(now, o.conn)
	}
	evenTrips(h.m)
	x.settle(h, now, o, out)
	out.lastResort = lastResorts(h) > resorts
	return after, out
}

func (x *explorer) lock(h *host, now vote.Now, spec vote.Spec) claim {
	spec.Length, spec.Delay, spec.MinHold = x.o.Length, x.o.Delay, x.o.MinHold
	n, err := h.m.Lock(now, quorum.RequestOptions{Spec: spec})
	if err != nil {
		panic(err)
	}
	return claim{state: waiting, mode: spec.Mode, number: n}
}

// roundTrip replaces every measured round trip. Round trips are hints: they decide how long a
// promise may be tentative. With this value the proposal timeout is the same for clients with and
// without a measured round trip, and is shorter than a tick.
const roundTrip = ttl / lease.RTTGuess / 4

// evenTrips overwrites every round trip measured by a node with the same value.
func evenTrips(m Machine) {
	v := reflect.ValueOf(m).Elem()
	for v.Type() != reflect.TypeFor[node.Node]() {
		v = reflect.Indirect(reflect.ValueOf(v.Field(0).Interface())) // a wrapper begins with the node
	}
	peers := get(v, "req").Elem()
	for _, layer := range []string{"leaseLayer", "requestLayer", "sessionLayer", "peerList", "peers"} {
		peers = get(peers, layer)
	}
	for i := range peers.Len() {
		rtt := (*time.Duration)(get(peers.Index(i).Elem(), "rtt").Addr().UnsafePointer())
		if *rtt > 0 {
			*rtt = roundTrip
		}
	}
}

func lastResorts(h *host) uint64 {
	if h == nil || h.m.Voter() == nil {
		return 0
	}
	return h.m.Voter().Counters().LastResort
}

// settle does a shell's work: it handles the node's messages and events until there are none left.
func (x *explorer) settle(h *host, now vote.Now, o input, out *outcome) {
	for range 100 {
		sends, events := h.m.Drain(nil, nil)
		for i := range events {
			x.tell(h, now, o, &events[i], out)
		}
		for i := range sends {
			s := &sends[i]
			switch {
			case s.Close && dials(s.Conn) == dialedByIdle:
				h.m.Unlink(now, s.Conn)
				x.linkIdle(h, now, int(o.node))
			case s.Close:
				h.m.Unlink(now, s.Conn)
				out.sends = append(out.sends, send{conn: s.Conn, closed: true})
			case dials(s.Conn) == dialedByIdle && s.Message.Kind != vote.KindTokenQuery:
				// The idle voter has nothing to ask for, so no message to its session changes
				// anything.
			default:
				out.yields = out.yields || s.Message.Kind == vote.KindYield
				out.sends = append(out.sends, send{conn: s.Conn, msg: x.words.number(&s.Message)})
			}
		}
		if h.m.Next(now) <= 0 {
			h.m.Tick(now)
			evenTrips(h.m)
		} else if len(sends) == 0 && len(events) == 0 {
			return
		}
	}
	panic("a node that is left alone doesn't come to rest")
}

// tell takes in an event.
func (x *explorer) tell(h *host, now vote.Now, o input, e *quorum.Event, out *outcome) {
	switch e.Kind {
	case quorum.EventAlarm:
		// A message of a crashed incarnation may come after the next incarnation's first.
		if !isDuplicate(e.Text) {
			out.wrong = fmt.Sprintf("%s: %s", x.names[o.node], e.Text)
		}
		return
	case quorum.EventValidity:
		h.validUntil[e.Group] = e.Until
		for i := range h.users {
			if u := &h.users[i]; u.state == holding && u.group == e.Group {
				u.until = e.Until
			}
		}
		return
	}
	for i := range h.users {
		u := &h.users[i]
		for _, c := range []*claim{&u.claim, &u.up} {
			if c.state == idle || c.number != e.Number {
				continue
			}
			switch e.Kind {
			case quorum.EventGranted:
				out.granted[i] = grant{e.Token, c == &u.up}
				c.state, c.slot, c.group, c.until = holding, e.Slot, e.Group, h.validUntil[e.Group]
				if c == &u.up { // the upgrade takes the place of the held lease
					if u.state == holding {
						h.m.Release(now, u.number)
					}
					*u = user{claim: *c}
				}
			case quorum.EventMoved:
				c.group, c.until = e.Group, h.validUntil[e.Group]
			case quorum.EventLost:
				out.lost = true
				*c = claim{}
			case quorum.EventFailed:
				out.failed = true
				*c = claim{}
			}
			break
		}
	}
}
