package lockmesh

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// The stages of a node on the way from fixed voters to dynamic membership.
func asFixed(c *Config)      { c.StateDir = "" }
func asConverting(c *Config) { c.FromFixed = true }
func asDynamic(*Config)      {}

// servedWithin bounds the time until a node is served after a step of a conversion.
const servedWithin = time.Second

// served has nodes take and release a lock, each within servedWithin.
func (w *living) served(names ...string) {
	w.t.Helper()
	for _, name := range names {
		l, err := w.nodes[name].Lock(testwait.Within(w.t, servedWithin), "served")
		if err != nil {
			w.t.Fatalf("%s isn't served: %v\n%v", name, err, w.nodes[name].Status())
		}
		w.unlock(l)
	}
}

// converts restarts a node at another stage, while the others hold their leases, and waits until
// the next node may be restarted. The others are served meanwhile; the restarted node is served
// once connected, as after any start.
func (w *living) converts(name string, stage func(*Config), all []string, held map[string]*Lease) {
	w.t.Helper()
	if l := held[name]; l != nil {
		w.unlock(l)
		delete(held, name)
	}
	w.crash(name)
	w.start(name, stage)
	w.served(slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == name })...)
	w.ready(name)
	w.served(name)
	if err := w.nodes[name].Settled(testwait.Within(w.t, time.Minute)); err != nil {
		w.t.Fatalf("%v\n%v", err, w.nodes[name].Status())
	}
	w.served(all...)
	for _, other := range all {
		if held[other] == nil {
			held[other] = w.lock(other, "of "+other)
		}
		if err := held[other].Err(); err != nil {
			w.t.Fatalf("the lease of %s as %s is restarted: %v", other, name, err)
		}
	}
}

// A mesh with fixed voters gets dynamic membership by two rolling restarts. Each node except the
// restarted node holds its lease throughout, and each node is served within a second after each
// step.
func TestAFixedMeshIsConvertedByTwoRollingRestarts(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		all, held := []string{"a", "b", "c", "d"}, map[string]*Lease{}
		for _, name := range all {
			w.start(name, asFixed)
		}
		for _, name := range all {
			w.ready(name)
			held[name] = w.lock(name, "of "+name)
			if s := w.nodes[name].Status().Electorate; s.Dynamic || s.FromFixed {
				t.Fatalf("%+v", s)
			}
		}
		for i, name := range all {
			w.converts(name, asConverting, all, held)
			s := w.nodes[name].Status().Electorate
			if !s.Dynamic || !s.FromFixed || s.Version != 1 || s.Voter != (name != "d") || s.MaxTTL != DefaultMaxTTL || s.Lost != "" || s.Trouble != "" {
				t.Errorf("%s: %+v", name, s)
			}
			_, fixed, _ := strings.Cut(s.Change, "; still fixed: ")
			if want := strings.Join(all[i+1:], ", "); fixed != want {
				t.Errorf("%s has links with the fixed %q, want %q: %s", name, fixed, want, s.Change)
			}
		}
		for _, name := range all {
			w.converts(name, asDynamic, all, held)
			s := w.nodes[name].Status().Electorate
			if s.FromFixed || s.Version != 1 || s.Change != "" || s.Lost != "" || s.Trouble != "" {
				t.Errorf("%s: %+v", name, s)
			}
		}
		// From now on the voters can change.
		w.start("e", asDynamic)
		all = append(all, "e")
		for _, name := range all {
			w.untilVoters(name, all...)
		}
		w.served(all...)
		for name, l := range held {
			if err := l.Err(); err != nil {
				t.Errorf("the lease of %s: %v", name, err)
			}
		}
		if n := w.logs.count("level=ERROR"); n > 0 {
			t.Errorf("%d errors were logged", n)
		}
		if n := w.logs.count("STILL SET"); n > 0 {
			t.Errorf("%d times FromFixed was still set", n)
		}
	})
}

// The first rolling restart can be reverted at any point.
func TestTheFirstRestartOfAConversionIsTakenBack(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		all, held := []string{"a", "b", "c"}, map[string]*Lease{}
		for _, name := range all {
			w.start(name, asFixed)
		}
		for _, name := range all {
			w.ready(name)
			held[name] = w.lock(name, "of "+name)
		}
		for _, name := range []string{"a", "b"} {
			w.converts(name, asConverting, all, held)
		}
		for _, name := range []string{"b", "a"} {
			w.converts(name, asFixed, all, held)
			if s := w.nodes[name].Status().Electorate; s.Dynamic {
				t.Errorf("%+v", s)
			}
		}
		// The conversion can be repeated.
		for _, stage := range []func(*Config){asConverting, asDynamic} {
			for _, name := range all {
				w.converts(name, stage, all, held)
			}
		}
		if n := w.logs.count("level=ERROR"); n > 0 {
			t.Errorf("%d errors were logged", n)
		}
	})
}

// The other nodes refuse by name a fixed node that was left out of the conversion, and refuse its
// vote. The other nodes go on, and the fixed node joins by the same two restarts.
func TestAFixedNodeThatIsLeftBehindIsRefused(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inLivingBubble(t, func(t *testing.T, w *living) {
		all, held := []string{"a", "b", "c", "d", "e"}, map[string]*Lease{}
		for _, name := range all {
			w.start(name, asFixed)
		}
		for _, name := range all {
			w.ready(name)
		}
		for _, name := range []string{"a", "b", "e"} {
			w.converts(name, asConverting, []string{"a", "b", "e"}, held)
		}
		for _, l := range held {
			w.unlock(l)
		}
		clear(held)
		// The vote of c doesn't count now, so no lock is granted while a and b are quiet.
		for _, name := range []string{"a", "b", "e"} {
			w.crash(name)
			w.start(name, asDynamic)
			w.ready(name)
		}
		w.untilVoters("a", "a", "b", "e")             // e takes the seat of c
		for name, words := range map[string][]string{ // c is a voter, and d isn't
			"c": {"StateDir is not set here and set at a", "a (10.0.0.1:7950)", "b (10.0.0.2:7950)"},
			"d": {"the electorate is fixed here and is dynamic there", "a refuses", "b refuses"},
		} {
			_, err := w.nodes[name].Lock(testwait.Within(t, time.Minute), "k")
			if !errors.Is(err, ErrRefused) {
				t.Errorf("%s: %v", name, err)
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %q isn't in %v", name, word, err)
				}
			}
		}
		if s := w.nodes["a"].Status(); !slices.ContainsFunc(s.Refused, func(r RefusedPeer) bool {
			return r.Name == "c" && strings.Contains(r.Reason, "StateDir is set here and not set at c")
		}) {
			t.Errorf("a refuses %+v", s.Refused)
		}
		w.served("a", "b", "e")
		for _, name := range []string{"c", "d"} {
			for _, stage := range []func(*Config){asConverting, asDynamic} {
				w.converts(name, stage, []string{"a", "b", "e", name}, held)
			}
		}
		if n := w.logs.count("FROMFIXED IS STILL SET", "on=c"); n != 1 {
			t.Errorf("c has warned %d times that FromFixed is still set", n)
		}
		for _, name := range all {
			w.untilVoters(name, all...)
		}
		w.served(all...)
	})
}

// FromFixed refuses the state directory of a bootstrapped mesh; without FromFixed the node starts
// from the directory.
func TestFromFixedRefusesDirectoriesOfOtherMeshes(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.crash("a")
		if _, err := w.try("a", asConverting); !errors.Is(err, ErrStateDir) || !strings.Contains(err.Error(), "leave FromFixed out") {
			t.Errorf("%v", err)
		}
		w.start("a", nil)
		w.ready("a")
	})
}

func TestFromFixedIsChecked(t *testing.T) {
	valid := Config{Name: "a", Bind: "127.0.0.1:0", Voters: []string{"a", "b"}, StateDir: "/state", FromFixed: true}
	if err := valid.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		want string
		edit func(*Config)
	}{
		{"FromFixed: it gives a mesh with fixed Voters dynamic membership, and for this each node needs a directory; set StateDir", func(c *Config) { c.StateDir = "" }},
		{"FromFixed: Bootstrap is set, too", func(c *Config) { c.Bootstrap = true }},
		{"FromFixed: a mesh with Expect can't be converted", func(c *Config) { c.Voters, c.StateDir, c.Expect = nil, "", 3 }},
		{"Voters: the list is empty", func(c *Config) { c.Voters = nil }},
	} {
		cfg := valid
		c.edit(&cfg)
		if err := cfg.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
