package explore

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// rule encodes one field of a struct in another way than the field's plain value.
type rule func(e *encoder, in, v reflect.Value)

func skip(*encoder, reflect.Value, reflect.Value) {}

// rules name every field that isn't encoded as its plain value. A test checks each name against the
// structs.
var rules, forms map[string]rule

func init() {
	rules = map[string]rule{
		// Never changes, or is empty between calls, or is a figure on which no decision depends.
		"node.Node.self": skip, "node.Node.out": skip, "node.Node.local": skip, "node.Node.batch": skip, "node.Node.delivered": skip, "node.Node.began": skip, "node.Node.spare": skip, "node.Node.spareEvents": skip, "node.Node.spareLocal": skip,
		"quorum.sessionLayer.cfg": skip, "quorum.effects.out": skip, "quorum.effects.events": skip, "quorum.effects.count": skip,
		"quorum.peerList.self": skip, "quorum.peerList.places": skip,
		"lease.sessionLayer.cfg": skip, "lease.sessionLayer.electorate": skip, "lease.outbox.out": skip, "lease.outbox.alarms": skip, "lease.sessionLayer.count": skip,
		"quorum.peer.place": skip, "quorum.peer.name": skip, "quorum.peer.dir": skip, "quorum.peer.ackEpoch": skip, "quorum.sessionLayer.electorates": skip,

		// All nodes have one configuration and one process for each name, so no voter is kept from
		// counting. The figures of work decide when a task is cut, and no task is long enough here.
		"node.Node.guarded": skip, "node.Node.work": skip, "quorum.sessionLayer.meter": skip,
		"quorum.peer.syncBuilder": none, "quorum.peer.answerReader": none, "quorum.peer.ahead": none, "quorum.requestTable.review": none,
		"lease.sessionLayer.work": noTasks,
		// Each token is near a clock here, and none is refused.
		"lease.knownTokens.trust": refusesNone,
		// Only operators who restart nodes use the report that a voter counts.
		"lease.session.sentCounting": skip,

		// Memory for reuse, and values derived from the states of requests and from their groups.
		"quorum.requestTable.free": skip, "quorum.requestTable.mostRequests": skip, "quorum.requestTable.mostAliases": skip,
		"quorum.localQueues.freeQueues": skip, "quorum.localQueues.mostFronts": skip, "quorum.localQueues.mostQueues": skip, "quorum.leaseGroups.freeGroups": skip,
		"quorum.requestTable.pending": skip, "quorum.request.at": skip,
		"quorum.requestTable.ordered": skip, "quorum.request.prev": skip, "quorum.request.next": skip,
		"quorum.leaseGroups.endsNext": skip, "quorum.lengthList.next": skip,

		// Messages go to all voters here, without hedging; see quorum.Config.BroadcastAll.
		"quorum.hedges.hedged": skip, "quorum.hedges.releaseRTT": skip, "quorum.distances.order": skip, "quorum.peer.slow": skip,

		// Text for people.
		"quorum.peer.text": skip, "quorum.peer.quiet": skip, "quorum.peer.drift": skip, "quorum.peer.rate": skip,

		// Round trips are known or unknown; see evenTrips.
		"quorum.peer.rtt": isPositive,

		// Each stream begins by setting these anew, so without a stream they mean nothing.
		"quorum.peer.conn": ifUp, "quorum.peer.sent": ifUp, "quorum.peer.received": ifUp, "quorum.peer.digest": ifUp,
		"quorum.peer.earlyAcks": ifUp, "quorum.peer.syncAnswer": ifUp, "quorum.peer.refreshed": ifUp, "quorum.peer.lastReceived": ifUp,
		"quorum.peer.counting": ifAnswered,
		// A session validity that is over backs nothing, whatever its session was.
		"quorum.peer.validity": when(isValid),
		"quorum.peer.gen":      when(func(e *encoder, p reflect.Value) bool { return isValid(e, p) || up(e, p) && is(p, "answered") }),
		"quorum.peer.syncSent": ifUnanswered, // later messages on the stream were sent later
		"lease.session.conn":   ifLinked, "lease.session.listed": ifLinked, "lease.session.processed": ifLinked, "lease.session.pushed": ifLinked,
		"lease.session.received": ifLinked, "lease.session.awaitedPush": ifLinked,
		"lease.session.awaitedSince": ifMarked,
		"lease.session.probeUntil":   ifCandidate,
		"lease.session.syncSent":     ifStating, // only the answer depends on it, as an echo
		// A promise begins by setting these anew.
		"lease.entry.since": ifVoted, "lease.entry.inquired": ifVoted, "lease.entry.asked": ifVoted,
		"lease.coldFields.timed": skip, // see coldFields
		// Everything is refreshed at each tick, so this never makes a difference.
		"quorum.peer.refreshAt": skip,

		// All state kept about voters goes into the voters' columns.
		"quorum.peerList.peers":   columns,
		"quorum.tally.votes":      columns,
		"quorum.coldFields.votes": columns,
		"quorum.tally.cold":       rares,
		"lease.quiet.answers":     answers,

		// A group is written with its leases, and its contents follow from the leases.
		"quorum.leaseGroups.groups": skip, "quorum.leaseGroups.lastGroup": skip, "quorum.group.id": skip, "quorum.group.members": skip,
		"quorum.group.set":             spread,
		"quorum.requestTable.requests": func(e *encoder, _, v reflect.Value) { e.requests = v; e.value(v) },
		// Requests that have ended meanwhile are passed over.
		"quorum.leaseGroups.awaitingValidity": pendings,

		"quorum.localQueue.waiting": func(e *encoder, _, v reflect.Value) { e.value(slid(v)) },
		// Time limits of finished requests mean nothing.
		"quorum.timeLimits.ending": living(func(r reflect.Value) bool { return true }),
		"quorum.timeLimits.trying": living(func(r reflect.Value) bool { return get(r.Elem(), "state").Uint() == 0 }),

		// A voter that isn't a client sends requests only to its own voter, and requests no keys
		// there.
		"node.Node.req":             unlessIdle,
		"lease.sessionTable.listed": sessions,
		"lease.sessionTable.byID":   skip, // the same as listed

		"lease.sessionLayer.quiet":  quietness,
		"lease.voteTable.reminders": reminders,
		// Each timer that this instant summarizes is written. A timer that fires for nothing does
		// nothing; a missed timer is detected.
		"lease.sessionLayer.clock": missesNothing, "lease.Voter.voteLayer": missesNoKey,

		// How long a state has lasted matters only to queries and watches, and there are none here.
		"lease.coldFields.from": skip, "lease.voteLayer.news": none, "lease.keyTable.catalog": none,
		"lease.Voter.queries": none, "lease.session.applying": none, "quorum.queryTable.queries": none, "quorum.queryTable.queriesDue": skip,
		"quorum.queryTable.watches": none,
		// These matter for leases with a length of their own, or a minimum hold time.
		"lease.entry.wonAt": ifTimed, "quorum.coldVote.relSerial": ifTimed,
		// Whether a holder was told of contention decides only whether the holder is told again,
		// and the holder does nothing about it.
		"quorum.request.contended": skip,

		// The shell's own copy of the validity in quorum.group.
		"explore.claim.group": skip, "explore.host.validUntil": skip,
	}

	// The representation of data, chosen only to save memory or time, is no part of a state: these
	// rules write the contents. The rules apply in raw runs, too, where otherwise each way to fill
	// a cache would be a state. To find a cache that changes decisions, walks with shadows fill the
	// caches in other ways.
	forms = map[string]rule{
		"lease.keyTable.byName": elements, "lease.session.entries": elements, "lease.keyTable.idle": resting,
		"lease.key.votes": entries, "lease.key.queue": entries, "lease.key.endedShared": spent, "lease.entry.coldFields": coldFields,
		"lease.keyTable.every": skip, "lease.key.at": skip, "lease.session.all": skip, "lease.entry.at": skip,
		"lease.sessionTable.due": skip, "lease.sessionTable.moved": skip, "lease.sessionTable.recent": skip, "lease.outbox.unsent": skip,
		"lease.sessionLayer.spares": skip,
	}
}

func when(holds func(e *encoder, in reflect.Value) bool) rule {
	return func(e *encoder, in, v reflect.Value) {
		if holds(e, in) {
			e.value(v)
		} else {
			e.num(0)
		}
	}
}

// none panics unless a field is empty, since other rules depend on the field being empty.
func none(_ *encoder, in, v reflect.Value) {
	if !v.IsZero() {
		panic(fmt.Sprintf("explore: a %s has %v, which the rules don't provide for", in.Type(), v))
	}
}

// noTasks panics if a voter has left work over from a call.
func noTasks(_ *encoder, _, v reflect.Value) {
	if n := get(v, "tasks").Len(); n != 0 || get(v, "endings").Int() != 0 {
		panic(fmt.Sprintf("explore: a voter has %d tasks left, which the rules don't provide for", n))
	}
}

// refusesNone panics if a voter has refused a token.
func refusesNone(_ *encoder, _, v reflect.Value) {
	if get(v, "phase").Uint() != 0 || get(v, "refused").Len() != 0 {
		panic("explore: a voter has refused a token, which the rules don't provide for")
	}
}

var fieldsOf sync.Map // of reflect.Type: map[string]int

// get returns a field by its name; lookups by reflect are slow, so get caches the indexes.
func get(v reflect.Value, name string) reflect.Value {
	t := v.Type()
	fields, ok := fieldsOf.Load(t)
	if !ok {
		all := make(map[string]int, t.NumField())
		for i := range t.NumField() {
			all[t.Field(i).Name] = i
		}
		fields, _ = fieldsOf.LoadOrStore(t, all)
	}
	i, ok := fields.(map[string]int)[name]
	if !ok {
		panic("explore: " + t.String() + " has no field " + name)
	}
	return v.Field(i)
}

func is(in reflect.Value, name string) bool { return get(in, name).Bool() }

func isValid(e *encoder, p reflect.Value) bool {
	return get(get(p, "validity"), "newest").Int() > int64(e.now)
}

func up(_ *encoder, p reflect.Value) bool { return get(p, "link").Uint() == 2 } // linkUp

func linked(s reflect.Value) bool { return get(s, "phase").Uint() != 0 } // streamNone

// candidate reports whether a session is in standingCandidate or standingProven.
func candidate(s reflect.Value) bool { return get(s, "claim").Uint()-1 < 2 }

func voted(_ *encoder, e reflect.Value) bool { return get(e, "serial").Uint() != 0 }

var (
	ifVoted      = when(voted)
	ifTimed      = when(func(e *encoder, _ reflect.Value) bool { return e.x.o.timed() })
	ifUp         = when(up)
	ifAnswered   = when(func(_ *encoder, p reflect.Value) bool { return up(nil, p) && is(p, "answered") })
	ifUnanswered = when(func(_ *encoder, p reflect.Value) bool { return up(nil, p) && !is(p, "answered") })
	ifLinked     = when(func(_ *encoder, s reflect.Value) bool { return linked(s) || candidate(s) })
	ifCandidate  = when(func(_ *encoder, s reflect.Value) bool { return candidate(s) })
	ifStating    = when(func(_ *encoder, s reflect.Value) bool { return linked(s) && get(s, "phase").Uint() != 5 }) // streamReady
	ifMarked     = when(func(_ *encoder, s reflect.Value) bool {
		return linked(s) && get(s, "awaitedPush").Uint() != 0
	})
)

func isPositive(e *encoder, _, v reflect.Value) { e.num(bit(v.Int() > 0)) }

// columns writes one element for each voter.
func columns(e *encoder, _, v reflect.Value) {
	for i := range v.Len() {
		e.column(i, func() { e.value(v.Index(i)) })
	}
}

// spread writes a set of voters into their columns.
func spread(e *encoder, _, v reflect.Value) {
	for i := range e.x.o.Voters {
		e.column(i, func() { e.num(v.Uint() >> i & 1) })
	}
}

// answers writes the other voters' answers to token queries. Their order doesn't matter.
func answers(e *encoder, _, v reflect.Value) {
	for i := range v.Len() {
		a := v.Index(i)
		e.column(e.x.place(vote.NodeID(get(a, "from").String())), func() {
			e.value(get(a, "top"))
			e.value(get(a, "counting"))
		})
	}
}

// slid returns the contents of a quorum.sliding.
func slid(v reflect.Value) reflect.Value {
	room := get(v, "room")
	return room.Slice(int(get(v, "gone").Int()), room.Len())
}

// rares writes the cold fields of a request. Missing cold fields are the same as empty cold fields.
func rares(e *encoder, in, v reflect.Value) {
	if !v.IsNil() {
		e.value(v.Elem())
		return
	}
	none := reflect.New(v.Type().Elem()).Elem()
	votes := get(none, "votes")
	reflect.NewAt(votes.Type(), votes.Addr().UnsafePointer()).Elem().Set(reflect.MakeSlice(votes.Type(), get(in, "votes").Len(), maxVoters))
	e.value(none)
}

func living(wanted func(reflect.Value) bool) rule {
	return func(e *encoder, _, v reflect.Value) {
		list := slid(v)
		for i := range list.Len() {
			t := list.Index(i)
			if r := e.requests.MapIndex(get(t, "number")); r.IsValid() && wanted(r) {
				e.num(1)
				e.value(t)
			}
		}
		e.num(0)
	}
}

func unlessIdle(e *encoder, _, v reflect.Value) {
	if e.x.client(e.node) >= 0 {
		e.value(v)
	}
}

func sessions(e *encoder, _, v reflect.Value) {
	for i := range v.Len() {
		s := v.Index(i)
		owner := vote.NodeID(get(get(s.Elem(), "id"), "Node").String())
		if e.x.client(e.x.index(owner)) >= 0 {
			e.value(s)
		}
	}
	e.num(0)
}

// quietness leaves out the course of a startup quarantine that is over.
func quietness(e *encoder, _, v reflect.Value) {
	if is(v, "over") && get(v, "withdrawnUntil").Int() == 0 && !is(v, "broken") {
		e.num(1)
		return
	}
	e.num(0)
	e.value(v)
}

// elements writes the contents of a table.
func elements(e *encoder, _, v reflect.Value) { e.value(get(v, "m")) }

// few returns the entries of a list.
func few(v reflect.Value) (all []reflect.Value) {
	list := get(v, "one")
	if more := get(v, "more"); !more.IsNil() {
		list = more.Elem()
	}
	for i := range list.Len() {
		if at := list.Index(i); !at.IsNil() {
			all = append(all, at)
		}
	}
	return all
}

func entries(e *encoder, _, v reflect.Value) {
	all := few(v)
	e.num(uint64(len(all)))
	for _, at := range all {
		e.value(at)
	}
}

// spent writes a list behind a pointer; the pointer to an empty list may be nil or not.
func spent(e *encoder, _, v reflect.Value) {
	if v.IsNil() {
		e.num(0)
		return
	}
	e.value(v.Elem())
}

// inLine returns a list, and the index of the first remaining element.
func inLine(v reflect.Value) (all reflect.Value, first int) {
	return get(v, "all"), int(get(v, "gone").Int())
}

// resting writes the unused keys.
func resting(e *encoder, _, v reflect.Value) {
	all, first := inLine(v)
	e.num(uint64(all.Len() - first))
	for i := first; i < all.Len(); i++ {
		e.value(all.Index(i))
	}
}

// coldFields writes the cold fields of an entry. Missing fields are the same as zero fields, and an
// expired reminder is the same as none.
func coldFields(e *encoder, in, v reflect.Value) {
	x := reflect.Zero(v.Type().Elem())
	if !v.IsNil() {
		x = v.Elem()
	}
	e.value(x)
	timed := get(x, "timed").Int()
	if !voted(e, in) || timed <= int64(e.now) {
		timed = 0
	}
	e.num(uint64(timed))
}

// reminders leaves out the reminders of votes that are gone. A serial identifies the vote, and the
// reminders are sorted by time and serial.
func reminders(e *encoder, _, v reflect.Value) {
	type reminder struct {
		at     int64
		serial uint64
	}
	var living []reminder
	for i := range v.Len() {
		r := v.Index(i)
		serial := get(r, "serial").Uint()
		for _, vote := range few(get(get(r, "key").Elem(), "votes")) {
			if get(vote.Elem(), "serial").Uint() == serial {
				living = append(living, reminder{get(r, "at").Int(), serial})
			}
		}
	}
	slices.SortFunc(living, func(a, b reminder) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.serial, b.serial)) })
	e.num(uint64(len(living)))
	for _, r := range living {
		e.num(uint64(r.at))
		e.num(r.serial)
	}
}

// pendings writes the ballots that wait for their validity, in the order in which they will be
// judged.
func pendings(e *encoder, _, v reflect.Value) {
	for i := range v.Len() {
		// The state 0 is statePending.
		if r := e.requests.MapIndex(v.Index(i)); r.IsValid() && get(r.Elem(), "state").Uint() == 0 {
			e.num(v.Index(i).Uint())
		}
	}
	e.num(0)
}

// missesNothing writes the time of a voter's last call, and panics if the instant of the voter's
// next work is later than any of its timers.
func missesNothing(e *encoder, in, v reflect.Value) {
	e.value(get(v, "now"))
	due := get(v, "due").Int()
	check := func(wanted bool, at int64, what string) {
		if wanted && at < due {
			panic(fmt.Sprintf("a voter wakes up at %d and misses %s at %d", due, what, at))
		}
	}
	sessions := get(get(in, "sessions"), "listed")
	for i := range sessions.Len() {
		s := sessions.Index(i).Elem()
		check(true, get(s, "deadline").Int(), "the end of a session")
		check(candidate(s), get(s, "probeUntil").Int(), "the end of a probe")
		check(linked(s) && get(s, "awaitedPush").Uint() != 0, get(s, "awaitedSince").Int()+int64(ttl/2), "an answer that is due")
	}
	now, q := get(get(v, "now"), "Slow").Int(), get(in, "quiet")
	until, withdrawn := get(q, "until").Int(), get(q, "withdrawnUntil").Int()
	check(!is(q, "over") && now < until, until, "the end of its quiet time")
	check(is(q, "asking"), get(q, "askNext").Int(), "its next question")
	check(withdrawn != 0, withdrawn, "its return")
}

// missesNoKey writes the keys and votes of a voter, and panics likewise.
func missesNoKey(e *encoder, _, v reflect.Value) {
	e.value(v)
	due := get(get(get(v, "sessionLayer"), "clock"), "due").Int()
	check := func(timers reflect.Value, first int, what string) {
		if timers.Len() > first && get(timers.Index(first), "at").Int() < due {
			panic(fmt.Sprintf("a voter wakes up at %d and misses %s", due, what))
		}
	}
	check(get(get(v, "votes"), "reminders"), 0, "a vote that is to be looked at again")
	idle, first := inLine(get(get(v, "keys"), "idle"))
	check(idle, first, "a key that no request wants")
}

var typeRules sync.Map // of reflect.Type: []fieldRule

// fieldRule is the rule of a field; the rule is nil for a field encoded as its plain value.
type fieldRule struct {
	rule rule
	form bool // the rule holds in a raw run, too
}

// rulesOf returns the rule of each field of a struct.
func rulesOf(t reflect.Type) []fieldRule {
	if r, ok := typeRules.Load(t); ok {
		return r.([]fieldRule)
	}
	all := make([]fieldRule, t.NumField())
	for i := range all {
		name := t.String() + "." + t.Field(i).Name
		if form := forms[name]; form != nil {
			all[i] = fieldRule{form, true}
		} else {
			all[i] = fieldRule{rules[name], false}
		}
	}
	typeRules.Store(t, slices.Clip(all))
	return all
}
