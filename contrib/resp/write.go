package resp

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
)

// setting is a request to set a key.
type setting struct {
	key, value string
	ttl        time.Duration // zero without an end
	nx, xx     bool
}

func doSet(x *call) reply {
	w := setting{key: x.args[0], value: x.args[1]}
	unit := "" // of the time; the last of several times counts
	for i := 2; i < len(x.args); i++ {
		switch option := strings.ToUpper(x.args[i]); {
		case option == "NX" && !w.xx:
			w.nx = true
		case option == "XX" && !w.nx:
			w.xx = true
		case (option == "PX" || option == "EX") && (unit == "" || unit == option) && i+1 < len(x.args):
			i++
			unit = option
			var wrong reply
			if w.ttl, wrong = parseTTL(x, x.args[i], unitOf(option)); wrong != nil {
				return wrong
			}
		case option == "GET" || option == "KEEPTTL" || option == "PXAT" || option == "EXAT":
			return refused("SET with %s isn't offered: a lock needs SET key value NX PX milliseconds", option)
		default:
			return errSyntax
		}
	}
	return x.set(w)
}

func doSetNX(x *call) reply {
	switch r := x.set(setting{key: x.args[0], value: x.args[1], nx: true}).(type) {
	case status:
		return integer(1)
	case null:
		return integer(0)
	default:
		return r
	}
}

func doSetEX(x *call) reply  { return x.setFor(time.Second) }
func doPSetEX(x *call) reply { return x.setFor(time.Millisecond) }

func (x *call) setFor(unit time.Duration) reply {
	ttl, wrong := parseTTL(x, x.args[1], unit)
	if wrong != nil {
		return wrong
	}
	return x.set(setting{key: x.args[0], value: x.args[2], ttl: ttl})
}

func unitOf(option string) time.Duration {
	if option == "EX" {
		return time.Second
	}
	return time.Millisecond
}

// parseTTL reads the time of a key to be set.
func parseTTL(x *call, text string, unit time.Duration) (time.Duration, reply) {
	n, is := parseInteger(text)
	if !is {
		return 0, errInteger
	}
	if n <= 0 || n > math.MaxInt64/1000 {
		return 0, failf("ERR invalid expire time in '%s' command", x.cmd.name)
	}
	return span(n, unit), nil
}

// parseInteger reads a number as Redis does, in the form in which the number is written: +5 and 05
// are none.
func parseInteger(text string) (n int64, is bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// span returns n units as a duration; whatever is longer than the longest possible time is a little
// longer than that.
func span(n int64, unit time.Duration) time.Duration {
	return time.Duration(min(n, int64(lockmesh.LongestTTL/unit)+1)) * unit
}

// checkSetting returns the answer to a setting unfit for a lease, or nil.
func (x *call) checkSetting(w setting) reply {
	longest := x.s.longest()
	switch {
	case len(w.value) > lockmesh.MaxValueLen:
		return refused("the value has %d bytes, more than %d: a lock's value names its holder", len(w.value), lockmesh.MaxValueLen)
	case w.ttl == 0 && !x.s.allowLong:
		return refused("a key without an end would stay locked after a crash of its client: set the key with NX and PX %d or less, "+
			"and extend it (this is a lock service and keeps no other data)", longest.Milliseconds())
	case w.ttl > longest && !x.s.allowLong:
		return refused("%s is longer than MaxTTL, %s, for which the voters keep a key after a crash of this node: ask for less and extend "+
			"the key, or raise MaxTTL, or allow long times at the server", millis(w.ttl), millis(longest))
	case w.ttl > lockmesh.LongestTTL:
		return refused("the time is longer than the longest possible, %s", millis(lockmesh.LongestTTL))
	}
	return nil
}

// set sets a key: takes a free key, or overwrites a key held through this server.
func (x *call) set(w setting) reply {
	if wrong := x.checkSetting(w); wrong != nil {
		return wrong
	}
	own := x.find(w.key)
	list := own == nil && x.s.signals.has(w.key)
	switch {
	case own != nil && w.nx, list && w.nx:
		return null{}
	case list:
		return refused("the key %q is a list of signals; delete it first", clip(w.key))
	case own != nil:
		return x.overwrite(own, w)
	case w.xx:
		v, err := x.look(w.key)
		switch {
		case err != nil:
			return x.given(err)
		case v.foreign:
			return v.heldElsewhere(w.key)
		}
		return null{}
	}
	h, err := x.s.grant(x, w.key, w.value, w.ttl)
	switch {
	case errors.Is(err, lockmesh.ErrHeld):
		if x.run != nil && x.run.isOvertaken(w.key) {
			return x.run.overtaken(w.key)
		}
		if w.nx {
			return null{}
		}
		return failf("%s the key %q is held elsewhere, and a SET without NX would overwrite its holder", codeHeld, clip(w.key))
	case err != nil:
		return x.given(err)
	}
	if x.run != nil {
		x.run.granted(h)
	}
	return ok
}

// overwrite sets a key held through this server. Another value is another holder's, so only a
// script may set another value, after reading the present value: the script decides.
func (x *call) overwrite(h *held, w setting) reply {
	_, hasEnd := h.left()
	switch {
	case w.value != h.value && (x.run == nil || !x.run.hasSeenValue(w.key)):
		return failf("%s the key %q is held with another value: use NX, or a script that compares the value first", codeHeld, clip(w.key))
	case w.ttl == 0 && hasEnd: // set with the key, or later
		return refused("the key %q has an end, which a SET can't take away", clip(w.key))
	}
	if w.ttl > 0 {
		if wrong := x.s.setEnd(x, h, w.ttl); wrong != nil {
			return wrong
		}
		x.changed()
	}
	if w.value != h.value {
		if err := h.lease.SetValue(x.ctx, []byte(w.value)); err != nil {
			return x.given(err)
		}
		h.value, h.revalued = w.value, true
		x.changed()
	}
	return ok
}

// changed notes a change made for good.
func (x *call) changed() {
	if x.run != nil {
		x.run.changed = true
	}
}

func doDel(x *call) reply {
	// First see whether all can be deleted, since half a DEL is no answer.
	found := make([]state, 0, len(x.args))
	for _, key := range x.args {
		v, err := x.look(key)
		switch {
		case err != nil:
			return x.given(err)
		case v.foreign:
			return v.heldElsewhere(key)
		}
		found = append(found, v)
	}
	var n integer
	for i, v := range found {
		key := x.args[i]
		switch {
		case v.list:
			if x.s.signals.del(key) {
				n++
			}
		case v.own != nil && x.find(key) == v.own: // named once, or for the first time
			x.changed()
			n++
			if r := x.release(v.own); r != nil {
				return r
			}
		}
	}
	return n
}

// release ends a client's lease, and waits for the voters.
func (x *call) release(h *held) reply {
	if err := x.s.release(x.ctx, h); err != nil && !errors.Is(err, lockmesh.ErrLost) {
		return failf("%s the key is released for its client, and free when its lease is over at the latest: %v", codeNoQuorum, err)
	}
	return nil
}

func doExpire(x *call) reply  { return x.expire(time.Second) }
func doPExpire(x *call) reply { return x.expire(time.Millisecond) }

// expire has a key end a number of units from now.
func (x *call) expire(unit time.Duration) reply {
	key := x.args[0]
	n, is := parseInteger(x.args[1])
	if !is {
		return errInteger
	}
	if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
		return failf("ERR invalid expire time in '%s' command", x.cmd.name)
	}
	if len(x.args) > 2 {
		return refused("%s with NX, XX, GT or LT isn't offered", strings.ToUpper(x.cmd.name))
	}
	v, err := x.look(key)
	switch {
	case err != nil:
		return x.given(err)
	case v.foreign:
		return v.heldElsewhere(key)
	case !v.exists():
		return integer(0)
	}
	d := span(n, unit)
	switch {
	case v.list:
		x.s.signals.expire(key, d)
		return integer(1)
	case n <= 0: // as in Redis: its time is over
		x.changed()
		if r := x.release(v.own); r != nil {
			return r
		}
		return integer(1)
	}
	if wrong := x.checkSetting(setting{key: key, ttl: d}); wrong != nil {
		return wrong
	}
	x.changed()
	if wrong := x.s.setEnd(x, v.own, d); wrong != nil {
		return wrong
	}
	return integer(1)
}
