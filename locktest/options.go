package locktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options say how a service is examined. Zero means the default.
type Options struct {
	// TTL is for how long at most a lock outlives the last word of a holder that has died. Default 10 s. Give the service the
	// shortest that it takes: about twenty of them are waited for.
	TTL time.Duration
	// Patience bounds every wait for something that has to happen, beyond the TTL where that has to pass first. Default 20 s. It is
	// spent only where a promise is broken, so it may be far above what is usual.
	Patience time.Duration
	// Settle is how long a call gets to take its place in line before the examination goes on, where nothing tells that it
	// has; see [Queue]. If it is too short some faults go unseen, and no service is blamed for it. Default 20 ms.
	Settle time.Duration
	// Clients is how many clients contend, from MinClients to MaxClients. Default 4.
	Clients int
	// Turns is how often a key changes hands where clients contend for it, at least 10 for each client. Default 200.
	Turns int
	// Keys is how many keys are held at once. Default 1000.
	Keys int
	// Ops is how many operations the soak does. Default 2000.
	Ops int
	// Seed is what random choices are drawn from. The schedule of goroutines isn't, so a seed repeats a run only roughly.
	Seed uint64
	// Repeats is how often a promise is examined anew at most, if it seems broken but a busy machine may be the reason: a goroutine of the
	// examination ran late by more than a tenth of the TTL, so those that renew locks may have been late, too. What no machine excuses, such
	// as two holders, isn't tried again. Default 3; a negative number is none.
	Repeats int
	// Only are the names of the promises to examine. Default all.
	Only []string
	// Expect, if it isn't nil, is all that is known beforehand: a promise has to come out as it says, and one that it
	// doesn't name has to be kept; the first entry for a promise counts. If it is nil, no promise may be broken, and those that aren't offered are told.
	Expect []Expected
}

// Expected is how a promise comes out, as it is known beforehand.
type Expected struct {
	// Promise is its name.
	Promise string
	Outcome Outcome
	// AtTimes says that the promise, though broken, may look kept: it is broken in some runs. For Broken only.
	AtTimes bool
	// Why is the reason, for people.
	Why string
}

// Lacking returns the outcome of each promise that needs one of the capabilities: it isn't offered, for one reason.
func Lacking(why string, caps ...Capability) []Expected {
	var all []Expected
	for _, p := range promises {
		if slices.ContainsFunc(p.Needs, func(c Capability) bool { return slices.Contains(caps, c) }) {
			all = append(all, Expected{Promise: p.Name, Outcome: NotOffered, Why: why})
		}
	}
	return all
}

const (
	// MinClients is what a promise about a queue takes: a holder, one who gives up, one behind it, and one who looks.
	MinClients = 4
	// MaxClients bounds the processes, nodes or connections that an adapter may have to start.
	MaxClients = 64

	// turnsEach is how many turns each client needs at least for its share to mean anything.
	turnsEach = 10
)

func (o Options) withDefaults() (Options, error) {
	var errs []error
	complain := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("Options.%s: %s", field, fmt.Sprintf(format, args...)))
	}
	set := func(field string, v *time.Duration, standard time.Duration) {
		if *v < 0 {
			complain(field, "%v is less than nothing; leave it 0 for %v", *v, standard)
		} else if *v == 0 {
			*v = standard
		}
	}
	set("TTL", &o.TTL, 10*time.Second)
	set("Patience", &o.Patience, 20*time.Second)
	set("Settle", &o.Settle, 20*time.Millisecond)
	if o.Clients == 0 {
		o.Clients = MinClients
	}
	if o.Clients < MinClients || o.Clients > MaxClients {
		complain("Clients", "%d is not from %d to %d", o.Clients, MinClients, MaxClients)
	}
	count := func(field string, v *int, standard, least int) {
		if *v == 0 {
			*v = max(standard, least)
		} else if *v < least {
			complain(field, "%d is less than %d, the least that shows anything", *v, least)
		}
	}
	count("Turns", &o.Turns, 200, turnsEach*o.Clients)
	count("Keys", &o.Keys, 1000, o.Clients)
	count("Ops", &o.Ops, 2000, o.Clients*soakKeys)
	if o.Repeats == 0 {
		o.Repeats = 3
	}
	o.Repeats = max(0, o.Repeats)
	for _, name := range o.Only {
		if !known(name) {
			complain("Only", "there is no promise %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	for i, e := range o.Expect {
		switch {
		case !known(e.Promise):
			complain("Expect", "there is no promise %q; there are %s", e.Promise, strings.Join(names(), ", "))
		case slices.ContainsFunc(o.Expect[:i], func(other Expected) bool { return other.Promise == e.Promise && other.Outcome != e.Outcome }):
			complain("Expect", "%q is listed twice, with two outcomes", e.Promise)
		case !e.Outcome.valid():
			complain("Expect", "%q has the outcome %q; use Kept, Broken or NotOffered", e.Promise, e.Outcome)
		case e.AtTimes && e.Outcome != Broken:
			complain("Expect", "%q is %s at times; only Broken may be", e.Promise, e.Outcome)
		case e.Why == "" && e.Outcome != Kept:
			complain("Expect", "%q has no reason; say why it is %s", e.Promise, e.Outcome)
		}
	}
	return o, errors.Join(errs...)
}

// expected returns how a promise has to come out.
func (o Options) expected(name string) Expected {
	i := slices.IndexFunc(o.Expect, func(e Expected) bool { return e.Promise == name })
	if i < 0 {
		return Expected{Promise: name, Outcome: Kept}
	}
	return o.Expect[i]
}

// complaint says how a result differs from what is expected of it; "" when it doesn't.
func (o Options) complaint(r Result) string {
	if o.Expect == nil {
		if r.Outcome == Broken {
			return "broken: " + r.found()
		}
		return ""
	}
	want := o.expected(r.Promise.Name)
	switch {
	case r.Outcome == want.Outcome, want.AtTimes && r.Outcome == Kept:
		return ""
	case r.Outcome == Broken:
		return fmt.Sprintf("broken, and expected to be %s: %s", want.Outcome, r.found())
	case want.Why == "":
		return fmt.Sprintf("%s, and expected to be %s", r.Outcome, want.Outcome)
	default:
		return fmt.Sprintf("%s, and expected to be %s (%s)", r.Outcome, want.Outcome, want.Why)
	}
}
