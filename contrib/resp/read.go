package resp

import (
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh"
)

// checkKey returns the answer to an impossible key of the mesh, or nil. Redis allows any
// bytes.
func checkKey(key string) reply {
	var why string
	switch {
	case key == "":
		why = "is empty"
	case len(key) > lockmesh.MaxKeyLen:
		why = "has " + strconv.Itoa(len(key)) + " bytes, more than " + strconv.Itoa(lockmesh.MaxKeyLen)
	case !utf8.ValidString(key):
		why = "isn't UTF-8"
	default:
		for _, r := range key {
			if unicode.IsControl(r) {
				why = "has control characters"
				break
			}
		}
	}
	if why == "" {
		return nil
	}
	return refused("the key %s: a key of the mesh is UTF-8 of 1 to %d bytes without control characters", why, lockmesh.MaxKeyLen)
}

// state is the state of a key for a reading client.
type state struct {
	own     *held // held through this server
	list    bool  // a list of signals
	foreign bool  // held, or kept from all, elsewhere in the mesh
	node    string
	value   string        // of a foreign holder; the first of several
	left    time.Duration // of a foreign holder
}

func (v *state) exists() bool { return v.own != nil || v.list || v.foreign }

// look finds out the state of a key. A key not held through this server may be held elsewhere, so
// the voters are asked; while too few answer, nothing is said. The caller holds the key's lock.
func (x *call) look(key string) (v state, err error) {
	if v.own = x.find(key); v.own != nil {
		return v, nil
	}
	if x.s.signals.has(key) {
		v.list = true
		return v, nil
	}
	info, err := x.s.mesh.Inspect(x.ctx, key)
	if err != nil {
		return v, err
	}
	switch {
	case len(info.Holders) > 0:
		h := info.Holders[0]
		v.foreign, v.node, v.value, v.left = true, h.Node, string(h.Value), h.Left
	case info.Delayed > 0:
		v.foreign, v.left = true, info.Delayed
	}
	if x.run != nil && !v.foreign {
		x.run.sawFree(key)
	}
	return v, nil
}

// value returns a key's value, or the answer without one: none is null without such a key.
func (x *call) value(key string) (value string, none reply) {
	v, err := x.look(key)
	switch {
	case err != nil:
		return "", x.given(err)
	case v.own != nil:
		if x.run != nil {
			x.run.sawValue(key)
		}
		return v.own.value, nil
	case v.list:
		return "", errWrongType
	case v.foreign:
		return v.value, nil
	}
	return "", null{}
}

func doGet(x *call) reply {
	value, none := x.value(x.args[0])
	if none != nil {
		return none
	}
	return bulk(value)
}

func doStrLen(x *call) reply {
	value, none := x.value(x.args[0])
	switch none.(type) {
	case nil:
		return integer(len(value))
	case null:
		return integer(0)
	}
	return none
}

func doGetRange(x *call) reply {
	from, is1 := parseInteger(x.args[1])
	to, is2 := parseInteger(x.args[2])
	if !is1 || !is2 {
		return errInteger
	}
	value, none := x.value(x.args[0])
	switch none.(type) {
	case nil, null:
	default:
		return none
	}
	n := int64(len(value))
	if from < 0 && to < 0 && from > to {
		return bulk("")
	}
	if from < 0 {
		from = max(from+n, 0)
	}
	if to < 0 {
		to = max(to+n, 0)
	}
	to = min(to, n-1)
	if from > to || n == 0 {
		return bulk("")
	}
	return bulk(value[from : to+1])
}

func doExists(x *call) reply {
	var n integer
	for _, key := range x.args {
		v, err := x.look(key)
		if err != nil {
			return x.given(err)
		}
		if v.exists() {
			n++
		}
	}
	return n
}

func doType(x *call) reply {
	v, err := x.look(x.args[0])
	switch {
	case err != nil:
		return x.given(err)
	case v.list:
		return status("list")
	case v.exists():
		return status("string")
	}
	return status("none")
}

func doPTTL(x *call) reply { return x.left(time.Millisecond) }
func doTTL(x *call) reply  { return x.left(time.Second) }

// Answers of PTTL and TTL for a key without an end, and without such a key.
const (
	noEnd = integer(-1)
	noKey = integer(-2)
)

// left answers how long a key lasts, in units; Redis rounds seconds to the nearest.
func (x *call) left(unit time.Duration) reply {
	v, err := x.look(x.args[0])
	if err != nil {
		return x.given(err)
	}
	left, has := v.left, v.foreign
	switch {
	case v.own != nil:
		left, has = v.own.left()
	case v.list:
		left, has = x.s.signals.left(x.args[0])
	}
	switch {
	case has && unit == time.Second:
		return integer((max(left, 0) + 500*time.Millisecond) / time.Second)
	case has: // rounded up: an existing key has something left
		return integer(max((left+time.Millisecond-1)/time.Millisecond, 1))
	case v.exists():
		return noEnd
	}
	return noKey
}

// doToken answers the fencing token of a key held through this server. With a value, the token is
// answered only if the key has the value: a late client would otherwise get the token of the next
// holder.
func doToken(x *call) reply {
	if len(x.args) > 2 {
		return errSyntax
	}
	v, err := x.look(x.args[0])
	switch {
	case err != nil:
		return x.given(err)
	case v.foreign:
		return v.heldElsewhere(x.args[0])
	case v.own == nil, len(x.args) == 2 && v.own.value != x.args[1]:
		return null{}
	case v.own.revalued:
		return refused("a script has given the key %q another value, and the token of its lease is that of the first value's client: "+
			"delete the key and set it with NX for a token of its own", clip(x.args[0]))
	}
	return integer(v.own.lease.Token())
}

// heldElsewhere refuses a change of a key held, but not through this server.
func (v *state) heldElsewhere(key string) failure {
	if v.node == "" {
		return failf("%s the key %q is kept from all nodes for another %s", codeHeld, clip(key), millis(v.left))
	}
	return failf("%s the key %q is held by node %s, and not through this server as it runs now: only its holder releases or changes it, or its "+
		"time ends it", codeHeld, clip(key), v.node)
}
