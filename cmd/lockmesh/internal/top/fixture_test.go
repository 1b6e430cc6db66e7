package top

import (
	"fmt"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the screens of tests begin.
var start = time.Date(2026, 11, 27, 3, 4, 5, 0, time.UTC)

// recorder is the requests of a model, in place of an asker.
type recorder struct{ asked []string }

func (r *recorder) note(what string) command {
	r.asked = append(r.asked, what)
	return nil
}

func (r *recorder) beat() command              { return nil }
func (r *recorder) look() command              { return r.note("look") }
func (r *recorder) list(prefix string) command { return r.note("list " + prefix) }
func (r *recorder) inspect(key string) command { return r.note("inspect " + key) }
func (r *recorder) stop() command              { return r.note("stop") }

// take returns the requests since the last call.
func (r *recorder) take() []string {
	asked := r.asked
	r.asked = nil
	return asked
}

// screen is a model with a recorder.
type screen struct {
	*Model
	requests *recorder
}

// newScreen returns a screen of a healthy mesh, before the first look.
func newScreen(s Settings) *screen {
	if s.Every == 0 {
		s.Every = time.Second
	}
	r := new(recorder)
	return &screen{newModel(s, r, healthy(start), start), r}
}

// healthy is the status of a node of a healthy mesh.
func healthy(at time.Time) *admin.Status {
	return &admin.Status{
		At: at, Name: "alpha", Addr: "10.0.0.1:7950",
		Electorate: admin.Electorate{
			Voters: []admin.Voter{
				{Name: "alpha", State: "reachable", Text: "alpha: reachable", RoundTripUS: 12},
				{Name: "beta", State: "reachable", Text: "beta: reachable", RoundTripUS: 312},
				{Name: "gamma", State: "reachable", Text: "gamma: reachable", RoundTripUS: 14_100},
			},
			Majority: 2, Counting: 3, Ready: true, Spare: 1,
		},
		Held: []admin.HeldLease{
			{Key: "nightly/backup", Token: 7, LeftMS: 8_400}, {Key: "jobs/3", Token: 9, LeftMS: 9_100},
		},
		Waiting: []admin.Request{
			{Key: "jobs/1", Since: at.Add(-83 * time.Second), Text: "the lock is held; held by beta"},
		},
	}
}

// keys are some keys in use.
func keys(at time.Time) []admin.Lock {
	hold := func(node, value string, since time.Duration) admin.Holder {
		return admin.Holder{Node: node, Token: 1795791424657805, Mode: "exclusive", Value: admin.Value(value),
			Since: at.Add(-since), LeftMS: 9_300}
	}
	wait := func(node, value string, since time.Duration) admin.Waiter {
		return admin.Waiter{Node: node, Mode: "exclusive", Value: admin.Value(value), Since: at.Add(-since)}
	}
	return []admin.Lock{
		{Key: "encoder", Permits: 3, Holders: []admin.Holder{
			{Node: "beta", Mode: "permit", Slot: 1, Since: at.Add(-time.Hour), LeftMS: 9_000},
			{Node: "gamma", Mode: "permit", Slot: 2, Since: at.Add(-time.Minute), LeftMS: 7_000},
		}},
		{Key: "jobs/1", Holders: []admin.Holder{hold("beta", "10.0.0.7:8080", 31*time.Minute)}, Waiters: []admin.Waiter{
			wait("alpha", "import", 83*time.Second), wait("gamma", "export", 4*time.Second),
		}},
		{Key: "jobs/2", DelayedMS: 3_200, Waiters: []admin.Waiter{wait("gamma", "", 2*time.Second)}},
		{Key: "jobs/3", Holders: []admin.Holder{hold("alpha", "", 50*time.Hour)}},
		{Key: "leader/of-the-regional-scheduler/eu-central-1", Holders: []admin.Holder{
			{Node: "gamma", Mode: "exclusive", Unsure: true, Since: at.Add(-2 * time.Second), LeftMS: 9_900},
		}},
		{Key: "nightly/backup", Holders: []admin.Holder{hold("alpha", "pg-1, base backup", 9*time.Minute)}},
	}
}

// grantsOf is the report of a watch.
func grantsOf(counts map[string]int) seen {
	s := seen{keys: counts, live: true}
	for _, n := range counts {
		s.total += n
	}
	return s
}

// sends sends messages to the model.
func (s *screen) sends(all ...tea.Msg) {
	for _, msg := range all {
		s.Update(msg)
	}
}

// looks has the node answer a look with a status and keys. The look takes 10 ms.
func (s *screen) looks(status *admin.Status, locks []admin.Lock, grants seen) {
	at := s.now.Add(time.Second)
	status.At = at.Add(10 * time.Millisecond)
	s.sends(beat{at}, looked{at: status.At, status: status, seen: grants})
	if status.Electorate.Ready {
		s.sends(listed{at: status.At, prefix: s.filter, locks: locks})
	}
}

// presses presses keys: each of names is the name of a key, or a text to type.
func (s *screen) presses(names ...string) {
	codes := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "pgup": tea.KeyPgUp,
		"pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace,
	}
	for _, name := range names {
		if code, ok := codes[name]; ok {
			s.sends(tea.KeyPressMsg{Code: code})
			continue
		}
		if name == "ctrl+c" || name == "ctrl+z" || name == "ctrl+u" {
			s.sends(tea.KeyPressMsg{Code: rune(name[5]), Mod: tea.ModCtrl})
			continue
		}
		for _, r := range name {
			s.sends(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

// many returns n keys.
func many(n int) (all []admin.Lock) {
	for i := range n {
		all = append(all, admin.Lock{Key: fmt.Sprintf("shard/%04d", i), Holders: []admin.Holder{
			{Node: "beta", Mode: "exclusive", Since: start, LeftMS: 9_000},
		}})
	}
	return all
}
