package locktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options say how a service is examined. A zero field means the default.
type Options struct {
	// TTL is the longest time for which a lock outlives the last message of a crashed holder.
	// Default 10 s. Give the service the shortest TTL that the service accepts: the suite waits for
	// about twenty TTLs.
	TTL time.Duration
	// Timeout bounds every wait for something that has to happen. Where a TTL has to pass first,
	// Timeout begins after the TTL. Default 20 s. Only a broken promise uses Timeout up, so
	// Timeout may be far above the usual latency.
	Timeout time.Duration
	// Settle is how long the suite waits for a call to be queued where the service doesn't show its
	// queue; see [Queue]. If Settle is too short, some faults go unseen, but no service is blamed
	// wrongly. Default 20 ms.
	Settle time.Duration
	// Clients is how many clients contend, from MinClients to MaxClients. Default 4.
	Clients int
	// Handovers is how often a contended key changes hands, at least 10 times for each client.
	// Default 200.
	Handovers int
	// Keys is how many keys are held at once. Default 1000.
	Keys int
	// Ops is how many operations the soak does. Default 2000.
	Ops int
	// Seed seeds the random choices. The schedule of goroutines is not seeded, so a seed repeats a
	// run only roughly.
	Seed uint64
	// Repeats is how often a promise is examined anew at most, if the promise seems broken but a
	// busy machine may be the reason: a goroutine of the suite ran late by more than a tenth of the
	// TTL, so the goroutines that renew locks may have been late, too. A finding that no machine
	// excuses, such as two holders, isn't tried again. Default 3; a negative number means no
	// repeats.
	Repeats int
	// Only lists the names of the promises to examine. Default all.
	Only []string
	// Expect, unless nil, lists everything known beforehand: a listed promise must have the listed
	// outcome, and every other promise must be kept. The first entry for a promise counts. If
	// Expect is nil, no promise may be broken, and promises that aren't offered are only reported.
	Expect []Expected
}

// Expected is the outcome of a promise, as known beforehand.
type Expected struct {
	// Promise is the name of the promise.
	Promise string
	Outcome Outcome
	// Flaky says that the promise is broken in some runs only, and may look kept in others. For
	// Broken only.
	Flaky bool
	// Reason is the reason, for human readers.
	Reason string
}

// Lacking returns an entry for each promise that needs one of the capabilities: the promise isn't
// offered, for the reason why.
func Lacking(why string, caps ...Capability) []Expected {
	var all []Expected
	for _, p := range promises {
		if slices.ContainsFunc(p.Needs, func(c Capability) bool { return slices.Contains(caps, c) }) {
			all = append(all, Expected{Promise: p.Name, Outcome: NotOffered, Reason: why})
		}
	}
	return all
}

const (
	// MinClients is how many clients a promise about a queue needs: a holder, a waiter that gives
	// up, a waiter behind, and an observer.
	MinClients = 4
	// MaxClients bounds the processes, nodes or connections that an adapter may have to start.
	MaxClients = 64

	// minHandoversPerClient is the minimum number of turns per client for a client's share to mean
	// anything.
	minHandoversPerClient = 10
)

func (o Options) withDefaults() (Options, error) {
	var errs []error
	complain := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("Options.%s: %s", field, fmt.Sprintf(format, args...)))
	}
	set := func(field string, v *time.Duration, standard time.Duration) {
		if *v < 0 {
			complain(field, "%v is negative; leave it 0 for %v", *v, standard)
		} else if *v == 0 {
			*v = standard
		}
	}
	set("TTL", &o.TTL, 10*time.Second)
	set("Timeout", &o.Timeout, 20*time.Second)
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
	count("Turns", &o.Handovers, 200, minHandoversPerClient*o.Clients)
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
		case e.Flaky && e.Outcome != Broken:
			complain("Expect", "%q is %s at times; only Broken may be", e.Promise, e.Outcome)
		case e.Reason == "" && e.Outcome != Kept:
			complain("Expect", "%q has no reason; say why it is %s", e.Promise, e.Outcome)
		}
	}
	return o, errors.Join(errs...)
}

// expected returns the expected outcome of a promise.
func (o Options) expected(name string) Expected {
	i := slices.IndexFunc(o.Expect, func(e Expected) bool { return e.Promise == name })
	if i < 0 {
		return Expected{Promise: name, Outcome: Kept}
	}
	return o.Expect[i]
}

// mismatch says how a result differs from the expected outcome, or returns "" if they agree.
func (o Options) mismatch(r Result) string {
	if o.Expect == nil {
		if r.Outcome == Broken {
			return "broken: " + r.summary()
		}
		return ""
	}
	want := o.expected(r.Promise.Name)
	switch {
	case r.Outcome == want.Outcome, want.Flaky && r.Outcome == Kept:
		return ""
	case r.Outcome == Broken:
		return fmt.Sprintf("broken, and expected to be %s: %s", want.Outcome, r.summary())
	case want.Reason == "":
		return fmt.Sprintf("%s, and expected to be %s", r.Outcome, want.Outcome)
	default:
		return fmt.Sprintf("%s, and expected to be %s (%s)", r.Outcome, want.Outcome, want.Reason)
	}
}
