package lockmesh_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

// clash is a cut between two camps, from their start until each has granted one key to a node of
// its own, and the promised behavior after the end of the cut.
type clash struct {
	name         string
	differs      []string // the settings that differ
	stays, gives camp
}

// clashes has the rules to choose the configuration that gives way, in order of rank: the length of
// the list, then the age, then the text.
var clashes = []clash{
	{
		name:    "own name each, the younger gives way",
		differs: []string{"Voters"},
		stays:   camp{voters: "b", run: "b", client: "x", shows: []string{"[b]"}},
		gives:   camp{voters: "a", run: "a", client: "y", shows: []string{"[a]"}, later: time.Minute},
	},
	{
		name:    "three grown to five, the shorter gives way though it is the older",
		differs: []string{"Voters"},
		stays: camp{
			voters: "a b c d e", run: "c d e", client: "x", shows: []string{"[a b c d e]"},
			later: time.Minute,
		},
		gives: camp{voters: "a b c", run: "a b", client: "y", shows: []string{"[a b c]"}},
	},
	{
		name:    "three and three, the younger gives way",
		differs: []string{"Voters"},
		stays:   camp{voters: "d e f", run: "d e f", client: "x", shows: []string{"[d e f]"}},
		gives: camp{
			voters: "a b c", run: "a b c", client: "y", shows: []string{"[a b c]"},
			later: time.Minute,
		},
	},
	{
		name:    "three and three of one age, the later in sort order gives way",
		differs: []string{"Voters"},
		stays:   camp{voters: "a b c", run: "a b c", client: "x", shows: []string{"[a b c]"}},
		gives:   camp{voters: "d e f", run: "d e f", client: "y", shows: []string{"[d e f]"}},
	},
	{
		name:    "another MaxTTL too, the younger gives way",
		differs: []string{"MaxTTL", "Voters"},
		stays: camp{
			voters: "d e f", run: "d e f", client: "x", shows: []string{"20s", "[d e f]"},
			maxTTL: 20 * time.Second,
		},
		gives: camp{
			voters: "a b c", run: "a b c", client: "y", shows: []string{"10s", "[a b c]"},
			later: time.Minute,
		},
	},
	{
		name:    "another kind too, the younger is fixed and gives way",
		differs: []string{"StateDir", "Voters"},
		stays: camp{
			voters: "d e f", run: "d e f", client: "x", shows: []string{"set", "[d e f]"},
			dynamic: true,
		},
		gives: camp{
			voters: "a b c", run: "a b c", client: "y", shows: []string{"not set", "[a b c]"},
			later: time.Minute,
		},
	},
	{
		name:    "another kind too, the younger is dynamic and gives way",
		differs: []string{"StateDir", "Voters"},
		stays: camp{
			voters: "d e f", run: "d e f", client: "x", shows: []string{"not set", "[d e f]"},
		},
		gives: camp{
			voters: "a b c", run: "a b c", client: "y", shows: []string{"set", "[a b c]"},
			dynamic: true, later: time.Minute,
		},
	},
}

// TestOfTwoConfigurationsThatCountOneGivesWay has two configurations of a mesh count votes on the
// two sides of a cut, and meet.
func TestOfTwoConfigurationsThatCountOneGivesWay(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	for i := range clashes {
		c := &clashes[i]
		t.Run(c.name, func(t *testing.T) {
			inCamps(t, &c.stays, &c.gives, func(f *camps) { c.play(f) })
		})
	}
}

const (
	// meetWithin is the time after the end of a cut in which voters of both sides meet, at the
	// latest: a voter probes unknown peers every second, for a second each time.
	meetWithin = 3 * time.Second

	// changeMargin is the pause of a change besides MaxTTL: the nodes meet, and voters query each
	// other for the newest token.
	changeMargin = 5 * time.Second

	// forgottenAfter is the time for which a node's Status names a refused node without a new
	// contact.
	forgottenAfter = 12 * time.Second
)

func (c *clash) play(f *camps) {
	t := f.t
	f.cut(true)
	f.startAll(&c.stays, &c.gives)
	stays, gives := c.stays.voting(), c.gives.voting()

	// No promise covers the time of the cut: both sides count votes, and the key has two holders.
	kept, lost := f.lock(stays[0], "k"), f.lock(gives[0], "k")
	ofClient := f.lock(c.gives.client, "of the client")
	next := f.later(c.stays.last(), "k")       // waits for kept
	waits := f.later(gives[len(gives)-1], "k") // waits for lost
	for _, name := range f.all() {
		f.probe(name, "/readyz", 200, "")
	}

	f.cut(false)
	healed := time.Now()
	for _, l := range []*lockmesh.Lease{lost, ofClient} {
		select {
		case <-l.Done():
		case <-time.After(meetWithin):
			t.Fatalf("%q is held %v after the end of the cut", l.Key(), meetWithin)
		}
		f.is(l.Err(), lockmesh.ErrLost)
	}
	err := (<-waits).err
	f.is(err, lockmesh.ErrRefused)
	c.namesBoth(f, err.Error())
	time.Sleep(meetWithin - time.Since(healed)) // now all voters have met

	refused := func() {
		t.Helper()
		for _, name := range gives {
			c.isRefused(f, name)
		}
		for _, err := range f.calls(c.gives.client) {
			f.is(err, lockmesh.ErrRefused)
			if c.gives.dynamic { // the client may become a voter, so it has met the others itself
				f.says(err.Error(), c.reason(&c.gives, &c.stays, stays[0]))
			} else {
				f.says(err.Error(), "another configuration of the mesh counts",
					"its log has the details")
			}
		}
		f.probe(c.gives.client, "/readyz", 503, "lockmesh: ready: ")
	}
	refused()
	for _, name := range gives {
		c.lists(f, name, &c.gives, &c.stays)
	}
	for _, name := range stays {
		c.lists(f, name, &c.stays, &c.gives)
	}
	c.logged(f)

	// After a second cut the refused nodes stay refused, and the end of a cut changes nothing.
	f.cut(true)
	time.Sleep(3 * c.stays.ttl())
	refused()
	f.cut(false)
	time.Sleep(c.stays.ttl())
	refused()
	c.logged(f)

	// The nodes of the other side are served as before.
	if err := kept.Err(); err != nil {
		t.Errorf("the lease of the side that stays: %v", err)
	}
	select {
	case r := <-next:
		t.Errorf("the next in line doesn't wait for the holder: %v", r.err)
	default:
	}
	for _, name := range append(stays, c.stays.client) {
		f.serves(name)
		f.probe(name, "/readyz", 200, "")
	}

	c.restart(f)
	if err := kept.Err(); err != nil {
		t.Errorf("the lease of the side that stays, after the restarts: %v", err)
	}
	f.unlock(kept)
	r := <-next
	f.is(r.err)
	f.unlock(r.lease)
}

// TestAMaxTTLWithoutAMajorityGivesWay has two of three voters restart with another MaxTTL behind a
// cut. The third voter goes on counting votes by the old value, until the cut ends.
//
// With two values of MaxTTL and one list, no key is ever granted on both sides of a cut: any two
// majorities of one list have a voter in common.
func TestAMaxTTLWithoutAMajorityGivesWay(t *testing.T) {
	for _, to := range []time.Duration{2 * lockmesh.DefaultMaxTTL, lockmesh.DefaultMaxTTL / 2} {
		t.Run(to.String(), func(t *testing.T) {
			c := &clash{
				differs: []string{"MaxTTL"},
				stays: camp{
					voters: "a b c", run: "b c", client: "x", shows: []string{to.String()}, maxTTL: to,
				},
				gives: camp{voters: "a b c", run: "a", client: "y", shows: []string{"10s"}},
			}
			inCamps(t, &c.stays, &c.gives, func(f *camps) { c.playMinority(f) })
		})
	}
}

func (c *clash) playMinority(f *camps) {
	t := f.t
	f.cut(false)
	for _, name := range f.all() {
		f.start(name, &c.gives)
	}
	f.ready(f.all()...)
	f.unlock(f.lock("b", "k"))
	f.probe("a", "/readyz", 200, "")
	f.cut(true)
	for _, name := range c.stays.nodes() {
		f.stop(name)
		f.start(name, &c.stays)
	}
	f.ready(c.stays.nodes()...)
	kept := f.lock("b", "k")
	next := f.later("c", "k")
	f.cut(false)
	time.Sleep(meetWithin)

	c.isRefused(f, "a")
	c.lists(f, "a", &c.gives, &c.stays)
	for _, name := range c.stays.voting() {
		c.lists(f, name, &c.stays, &c.gives)
	}
	lines := f.logs["a"].errors()
	if len(lines) != 1 {
		t.Fatalf("a logs %q", lines)
	}
	f.says(lines[0], "alarm: most of this node's voters run with another configuration now",
		"MaxTTL 10s", "MaxTTL "+c.stays.shows[0])
	if strings.Contains(lines[0], "two holders") {
		t.Errorf("no key had two holders, and a logs %s", lines[0])
	}
	for _, name := range append(c.stays.nodes(), c.gives.client) {
		if lines := f.logs[name].errors(); len(lines) > 0 {
			t.Errorf("%s, which goes on, logs %q", name, lines)
		}
	}
	for _, err := range f.calls(c.gives.client) {
		f.is(err, lockmesh.ErrRefused)
		for _, name := range c.stays.voting() {
			f.says(err.Error(),
				fmt.Sprintf("%s refuses (MaxTTL is 10s here and %s there)", name, c.stays.shows[0]))
		}
	}

	for _, name := range c.stays.nodes() {
		f.serves(name)
	}
	c.restart(f)
	f.is(kept.Err())
	f.unlock(kept)
	r := <-next
	f.is(r.err)
	f.unlock(r.lease)
}

// isRefused checks the errors and the probe answers of a voter that gave way.
func (c *clash) isRefused(f *camps, name string) {
	f.t.Helper()
	there := c.stays.voting()
	for _, err := range f.calls(name) {
		f.is(err, lockmesh.ErrRefused)
		f.says(err.Error(), "the voter of "+name+" withdrew", c.reason(&c.gives, &c.stays, there[0]))
		for _, n := range there {
			f.says(err.Error(), fmt.Sprintf("%s (%s), which counts", n, campAddr(n)))
		}
	}
	f.probe(name, "/readyz", 503, "lockmesh: ready: the voters refuse this node: the voter of "+name+
		" withdrew")
	f.probe(name, "/livez", 200, "")
}

// reason returns the text by which a node of one camp reports its differences from a node of the
// other.
func (c *clash) reason(here, there *camp, name string) string {
	var points []string
	for i, what := range c.differs {
		points = append(points,
			fmt.Sprintf("%s is %s here and %s at %s", what, here.shows[i], there.shows[i], name))
	}
	return strings.Join(points, "; ")
}

// lists demands that a voter's Status names all nodes of the other camp.
func (c *clash) lists(f *camps, name string, here, there *camp) {
	f.t.Helper()
	want := there.nodes()
	slices.Sort(want)
	all := f.nodes[name].Status().Refused
	if len(all) != len(want) {
		f.t.Fatalf("%s lists %+v as refused, want %s", name, all, want)
	}
	for i, r := range all {
		if r.Name != want[i] || r.Addr != campAddr(want[i]) || r.Reason != c.reason(here, there, r.Name) {
			f.t.Errorf("%s lists %+v as refused", name, r)
		}
	}
}

// namesBoth demands that a text contains both configurations.
func (c *clash) namesBoth(f *camps, text string) {
	f.t.Helper()
	f.says(text, c.gives.shows...)
	f.says(text, c.stays.shows...)
}

// logged checks the errors in the logs: an alarm of each voter that gave way, a further line of the
// voter that held leases, and no error of any other node.
func (c *clash) logged(f *camps) {
	f.t.Helper()
	for _, name := range f.all() {
		lines := f.logs[name].errors()
		switch {
		case !slices.Contains(c.gives.voting(), name):
			if len(lines) > 0 {
				f.t.Errorf("%s, which goes on, logs %q", name, lines)
			}
			continue
		case name == c.gives.voting()[0]:
			if len(lines) != 2 {
				f.t.Fatalf("%s, which held a lease, logs %q", name, lines)
			}
			f.says(lines[1], "leases lost: this node withdrew", "keys=[k]")
			if late := f.logs[name].with("could not be renewed"); len(late) > 0 {
				f.t.Errorf("%s, which withdrew, also logs %q", name, late)
			}
			lines = lines[:1]
		}
		if len(lines) != 1 {
			f.t.Fatalf("%s logs %q", name, lines)
		}
		f.says(lines[0], "alarm: two configurations of one mesh counted at once for up to ",
			"may have had two holders", "the voter of "+name, "withdraws in favor of that of ")
		f.says(lines[0], "Voters ["+c.gives.voters+"]", "Voters ["+c.stays.voters+"]")
	}
}

// restart restarts the refused nodes, one after the other, with the configuration of the other
// camp.
func (c *clash) restart(f *camps) {
	t := f.t
	began := time.Now()
	for _, name := range c.gives.nodes() {
		f.stop(name)
		f.start(name, &c.stays)
	}
	// A restarted voter is quiet for a MaxTTL. A node without a vote in the new list has no pause.
	quiet, cancelQuiet := context.WithTimeout(t.Context(), c.stays.ttl()+changeMargin)
	defer cancelQuiet()
	ctx, cancel := context.WithTimeout(t.Context(), changeMargin)
	defer cancel()
	for _, name := range c.gives.nodes() {
		err := f.nodes[name].Ready(ctx)
		if slices.Contains(strings.Fields(c.stays.voters), name) {
			err = f.nodes[name].Settled(quiet)
			if took := time.Since(began); took < c.stays.ttl() {
				t.Errorf("%s counts %v after its start", name, took)
			}
		}
		if err != nil {
			t.Fatalf("%s with the configuration of the others: %v", name, err)
		}
		_, err = f.nodes[name].TryLock(quiet, "k")
		if !errors.Is(err, lockmesh.ErrHeld) {
			t.Errorf("%s takes a key that is held: %v", name, err)
		}
		f.serves(name)
		f.probe(name, "/readyz", 200, "")
	}
	time.Sleep(forgottenAfter)
	for _, name := range f.all() {
		if all := f.nodes[name].Status().Refused; len(all) > 0 {
			t.Errorf("all have one configuration, and %s lists %+v as refused", name, all)
		}
	}
}
