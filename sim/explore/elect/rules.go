package elect

import (
	"reflect"
	"sync"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// rule encodes one field of a struct in another way than the field's plain value.
type rule func(e *encoder, in, v reflect.Value)

func skip(*encoder, reflect.Value, reflect.Value) {}

// rules name every field that isn't encoded as its plain value. A test checks each name against the
// structs.
var rules map[string]rule

func init() {
	rules = map[string]rule{
		// Never changes, or is empty between calls, or is text for people. Clocks are represented
		// by the instants with which they are compared.
		"electorate.stateLayer.cfg": func(e *encoder, _, v reflect.Value) { e.num(int64(field(field(v, "Self"), "Incarnation").Uint())) },
		"electorate.stateLayer.now": skip, "electorate.stateLayer.own": skip, "electorate.stateLayer.out": skip,
		"electorate.stateLayer.saves": skip, "electorate.stateLayer.alarms": skip, "electorate.stateLayer.started": skip,
		"electorate.contactLayer.noMajoritySince": skip, "electorate.contactLayer.order": skip, // the others are encoded

		// Old copies of directories aren't explored, so the write count of a state matters only
		// between a save and the answers that wait for the save.
		"vote.DiskState.Writes": skip, "electorate.deferredAnswer.writes": sinceWrites,
		"electorate.stateLayer.everStored": skip, "electorate.other.writes": skip,
		"electorate.other.incarnation": skip,

		// The steps in which nodes send electorates and poll each other are independent of the
		// machine, so the last recipients and the next poll don't matter.
		"electorate.contactLayer.conns": skip, "electorate.contactLayer.pollAt": skip,
		// A report counts as a report from before or from after the drain; see
		// electorate.Machine.applies.
		"electorate.contactLayer.nonce": skip, "electorate.drain.fresh": func(e *encoder, _, v reflect.Value) { e.flag(v.Uint() > 0) },
		"electorate.other.report": told, "electorate.other.reportedAt": skip, "electorate.other.confirmed": skip,
		"electorate.other.since": skip, // gossip says nothing new
		// A connection is given up after ten polls. An incarnation never sends so many here, since
		// each poll takes time or an electorate. If there were ten, explorer.finish would complain.
		"electorate.other.unanswered": skip, "electorate.other.askedAt": skip,

		// Reports contain no contacts here, so no voter is ever absent, and the time of the last
		// contact is text for people.
		"electorate.contactLayer.ties": skip,
		// A voter that doesn't store the electorate becomes absent after a while; this changes
		// nothing here either, since there is no standby.
		"electorate.stateLayer.savingFrom": since(electorate.SaveLimit(ttl), func(e *encoder) bool { return field(e.core, "savingNow").Bool() }),
		"electorate.other.warnedAt":        skip, // the operator is warned of tokens
		"electorate.other.lagging":         skip, "electorate.other.laggingSince": skip,
		"electorate.other.uncounted": skip,

		"electorate.drain.seen": unordered, "electorate.race.with": unordered,
		"electorate.stateLayer.saving":    when(func(e *encoder) bool { return field(e.core, "savingNow").Bool() }),
		"electorate.stateLayer.retryAt":   until(func(e *encoder) bool { return field(e.core, "stuck").Len() > 0 }),
		"electorate.contactLayer.adopted": since(electorate.FailAfter(ttl), joint),
		"electorate.drain.since": since(electorate.Drain(ttl), func(e *encoder) bool {
			return field(field(e.core, "drain"), "begun").Bool()
		}),
		"electorate.race.until": until(changing),
		// Before the joint electorate no proposer waits for its turn, since each proposal is a
		// step. After the final electorate nothing more is explored.
		"electorate.Machine.race": when(changing), "electorate.Machine.number": when(changing),
		"electorate.Machine.raceAt": until(joint), "electorate.Machine.needed": when(joint),
		"electorate.Machine.neededAt": since(2*ttl, func(e *encoder) bool { return joint(e) && field(e.core, "needed").Len() > 0 }),
	}
}

var typeRules sync.Map // of reflect.Type: []rule

// rulesOf returns the rule of each field of a struct; nil for a field encoded as its plain value.
func rulesOf(t reflect.Type) []rule {
	if r, ok := typeRules.Load(t); ok {
		return r.([]rule)
	}
	all := make([]rule, t.NumField())
	for i := range all {
		all[i] = rules[t.String()+"."+t.Field(i).Name]
	}
	typeRules.Store(t, all)
	return all
}

// field returns a field by its name.
func field(v reflect.Value, name string) reflect.Value {
	f := v.FieldByName(name)
	if !f.IsValid() {
		panic("elect: " + v.Type().String() + " has no field " + name)
	}
	return f
}

// version returns the version of the electorate known to a machine.
func (e *encoder) version() uint64 {
	return field(field(field(e.core, "state"), "Electorate"), "Version").Uint()
}

func joint(e *encoder) bool { return e.version() == jointVersion }

func changing(e *encoder) bool { return e.version() < finalVersion }

func when(holds func(e *encoder) bool) rule {
	return func(e *encoder, _, v reflect.Value) {
		if holds(e) {
			e.value(v)
		} else {
			e.num(0)
		}
	}
}

// until encodes an instant by its distance in the future, as far as the distance matters.
func until(matters func(e *encoder) bool) rule {
	return func(e *encoder, _, v reflect.Value) {
		if matters(e) {
			e.num(max(0, v.Int()-int64(e.now)))
		} else {
			e.num(0)
		}
	}
}

// since encodes an instant by its distance in the past; distances longer than most are equal.
func since(most interface{ Nanoseconds() int64 }, matters func(e *encoder) bool) rule {
	return func(e *encoder, _, v reflect.Value) {
		if matters(e) {
			e.num(min(most.Nanoseconds(), int64(e.now)-v.Int()))
		} else {
			e.num(0)
		}
	}
}

func sinceWrites(e *encoder, _, v reflect.Value) {
	e.num(int64(v.Uint()) - int64(field(field(e.core, "state"), "Writes").Uint()))
}

// unordered writes a slice as a set.
func unordered(e *encoder, _, v reflect.Value) {
	var all []string
	for i := range v.Len() {
		p := encoder{core: e.core, now: e.now}
		p.value(v.Index(i))
		all = append(all, string(p.buf))
	}
	e.set(all)
}

// told encodes a report by its effect on decisions: the report matters to nodes that may end the
// joint electorate.
func told(e *encoder, in, v reflect.Value) {
	if !joint(e) || !field(in, "confirmed").Bool() {
		e.num(0)
		return
	}
	e.num(1)
	fresh := field(field(e.core, "drain"), "fresh").Uint()
	e.flag(fresh > 0 && field(v, "nonce").Uint() >= fresh)
	e.flag(int64(e.now)-field(in, "reportedAt").Int() <= int64(3*ttl/10)) // electorate.Machine.recent
	for _, name := range []string{"dir", "version", "top", "counting", "stuck"} {
		e.value(field(v, name))
	}
}

// at returns the time on a machine's clock.
func at(m Machine) vote.Instant {
	return vote.Instant(field(coreOf(m), "now").FieldByName("Slow").Int())
}

func coreOf(m Machine) reflect.Value { return reflect.ValueOf(m.Core()).Elem() }
