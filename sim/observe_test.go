package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// witness counts the calls of an observer's methods.
type witness struct {
	granted, sent, local uint64
	ended                map[State]uint64
}

func (o *witness) Granted(r *Request) {
	if r.State == Granted {
		o.granted++
	}
}

func (o *witness) Ended(r *Request) { o.ended[r.State]++ }

func (o *witness) Sent(_, _ vote.SessionID, _ *vote.Message, between bool) {
	if between {
		o.sent++
	} else {
		o.local++
	}
}

// TestAnObserverChangesNothing shows that a world runs the same with an observer, and notifies the
// observer of everything counted in the figures.
func TestAnObserverChangesNothing(t *testing.T) {
	eachSeed(t, 6, func(t *testing.T, seed uint64) {
		const length = 20 * time.Second
		plain := New(Draw(seed))
		plain.Run(length)
		o, see := Draw(seed), &witness{ended: make(map[State]uint64)}
		o.Observe = see
		w := New(o)
		w.Run(length)
		if w.Hash() != plain.Hash() {
			t.Error("the world with an observer is another one")
		}
		f := w.Figures()
		// A starting node sends messages to its own voter before the world observes the node, so
		// the observer may be notified of fewer local messages than the figures count.
		if see.granted != f.Acquisitions || see.sent != f.Messages || see.local == 0 || see.local > f.Local ||
			see.ended[Lost] != f.Losses || see.ended[Failed] != f.Failures || f.Acquisitions == 0 {
			t.Errorf("it was told of %+v, and the figures are %+v", see, f)
		}
	})
}

func TestAtNodeRunsInTheNodesProcess(t *testing.T) {
	w := New(Options{MaxTTL: time.Second, Names: []string{"left", "right", "top"}, Clients: 1})
	w.Script.Awake()
	start := w.Now()
	var told []string
	tell := func(what string) func() {
		return func() { told = append(told, what+" "+(w.Now()-start).String()) }
	}
	w.AtNode("left", time.Second, tell("runs"))
	w.AtNode("right", time.Second, tell("stopped"))
	w.AtNode("top", time.Second, tell("dead"))
	w.AtNode("x1", 0, tell("at once"))
	w.Script.Stop("right")
	if id := w.Session("top"); id.Node != "top" || id.Incarnation == 0 {
		t.Errorf("top's session is %v", id)
	}
	w.Script.Crash("top")
	if id := w.Session("top"); id != (vote.SessionID{}) || !w.Stopped("right") || w.Stopped("left") {
		t.Errorf("top is dead and has the session %v, and only right is stopped", id)
	}
	if w.ReachesMajority("left") || w.ReachesMajority("top") {
		t.Error("left alone is a majority")
	}
	w.Run(2 * time.Second)
	w.Script.Continue("right")
	w.Script.Start("top")
	w.Run(100 * time.Millisecond)
	if want := []string{"at once 0s", "runs 1s", "stopped 2s"}; !slices.Equal(told, want) {
		t.Errorf("it went %q, want %q", told, want)
	}
	if !w.ReachesMajority("left") || !w.ReachesMajority("x1") {
		t.Error("left and right are no majority")
	}
	w.Script.Cut("x1", "left", "top")
	if w.ReachesMajority("x1") || !w.ReachesMajority("left") {
		t.Error("who reaches right only reaches a majority, or left doesn't")
	}
}

func TestDelayDecidesHowLongMessagesTravel(t *testing.T) {
	w := New(Options{Voters: 1, Clients: 2, MaxTTL: time.Second, Clocks: Clocks{Exact: true}, Net: Net{
		Delay: func(from, to int, _ uint64) time.Duration { return time.Duration(1+from+2*to) * time.Millisecond },
	}})
	w.Script.Awake()
	for node, want := range map[string]time.Duration{"x1": (1 + 1 + 1 + 2) * time.Millisecond, "x2": (1 + 2 + 1 + 4) * time.Millisecond} {
		r := w.Script.Lock(node, node)
		w.Run(100 * time.Millisecond)
		if r.Had-r.Asked != want {
			t.Errorf("%s's lock took %v, want %v", node, r.Had-r.Asked, want)
		}
	}
}

// TestAnUnjudgedWorldRunsAsAJudgedOne shows that a world without checks runs like a world with
// checks.
func TestAnUnjudgedWorldRunsAsAJudgedOne(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for seed := range uint64(5) {
		var hashes [2]uint64
		var held [2]string
		for i := range hashes {
			w := New(Options{Seed: seed, Clients: 1, Load: Load{Clients: 3, Keys: 2, Think: 20 * time.Millisecond, Hold: 50 * time.Millisecond, Patience: time.Second}, Unjudged: i == 1})
			if !w.Script.Awake() {
				t.Fatal(w.Err())
			}
			r := w.Script.Lock("x1", "kept")
			w.Run(20 * time.Second)
			if err := w.Err(); err != nil {
				t.Fatal(err)
			}
			hashes[i], held[i] = w.Hash(), fmt.Sprint(w.Script.Held(r), w.Figures().Acquisitions > 100)
		}
		if hashes[0] != hashes[1] || held[0] != "true true" || held[1] != "true true" {
			t.Errorf("seed %d: %x, held and busy %s, and unjudged %x, %s", seed, hashes[0], held[0], hashes[1], held[1])
		}
	}
}
