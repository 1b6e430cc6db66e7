package promlock_test

import (
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/lockmesh/lockmesh"
	promlock "github.com/lockmesh/lockmesh/contrib/prometheus"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/meshtest"
)

// measured runs a test in simulated time, with a mesh of so many nodes; the first node is measured.
func measured(t *testing.T, nodes int, f func(t *testing.T, m *meshtest.Mesh, s *scrape), options ...meshtest.Option) {
	metrics := promlock.New(promlock.WithPrefixes("orders/", "orders/eu/"))
	options = append(options, meshtest.WithConfig(func(c *lockmesh.Config) {
		if c.Name == "a" {
			c.Observer = metrics.Observer()
		}
	}))
	meshtest.Run(t, nodes, func(t *testing.T, m *meshtest.Mesh) {
		metrics.Watch(m.Node("a"))
		s := &scrape{t: t, registry: prometheus.NewPedanticRegistry()}
		if err := s.registry.Register(metrics); err != nil {
			t.Fatal(err)
		}
		f(t, m, s)
	}, options...)
}

// scrape reads metrics as a server does.
type scrape struct {
	t        *testing.T
	registry *prometheus.Registry
}

// all returns all series by name and labels, like `lockmesh_voters{state="quiet"}`. A histogram is
// the number of its observations.
func (s *scrape) all() map[string]float64 {
	s.t.Helper()
	synctest.Wait() // the observer runs in a goroutine of its own
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	series := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			series[f.GetName()+labels(m)] = value(m)
		}
	}
	return series
}

func labels(m *dto.Metric) string {
	var all []string
	for _, l := range m.Label {
		all = append(all, l.GetName()+`="`+l.GetValue()+`"`)
	}
	if all == nil {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	default:
		return float64(m.Histogram.GetSampleCount())
	}
}

// is checks that series have values.
func (s *scrape) is(want map[string]float64) {
	s.t.Helper()
	got := s.all()
	for name, v := range want {
		if have, ok := got[name]; !ok || math.Abs(have-v) > 1e-9 {
			s.t.Errorf("%s is %v (there: %v), want %v", name, have, ok, v)
		}
	}
}

func lock(t *testing.T, m *lockmesh.Mesh, key string, opts ...lockmesh.Option) *lockmesh.Lease {
	t.Helper()
	l, err := m.Lock(t.Context(), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func unlock(t *testing.T, l *lockmesh.Lease) {
	t.Helper()
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLocksAreMeasured(t *testing.T) {
	measured(t, 3, func(t *testing.T, m *meshtest.Mesh, s *scrape) {
		a, b := m.Node("a"), m.Node("b")
		unlock(t, lock(t, a, "k"))
		unlock(t, lock(t, a, "orders/1"))
		unlock(t, lock(t, a, "orders/eu/1"))
		other := lock(t, b, "orders/2")
		if _, err := a.TryLock(t.Context(), "orders/2"); err == nil {
			t.Fatal("two holders")
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = a.Lock(testwait.Within(t, 7*time.Second), "orders/2") // the metrics have the outcome
		}()
		time.Sleep(5 * time.Second)
		s.is(map[string]float64{"lockmesh_waiting": 1, "lockmesh_wait_oldest_seconds": 5, "lockmesh_leases": 0})
		<-done
		mine := lock(t, a, "mine")
		s.is(map[string]float64{
			`lockmesh_acquire_seconds{op="lock",outcome="granted",prefix=""}`:           2,
			`lockmesh_acquire_seconds{op="lock",outcome="granted",prefix="orders/"}`:    1,
			`lockmesh_acquire_seconds{op="lock",outcome="granted",prefix="orders/eu/"}`: 1,
			`lockmesh_acquire_seconds{op="trylock",outcome="held",prefix="orders/"}`:    1,
			`lockmesh_acquire_seconds{op="lock",outcome="held",prefix="orders/"}`:       1,
			`lockmesh_leases_ended_total{reason="unlocked"}`:                            3,
			`lockmesh_leases_ended_total{reason="lost"}`:                                0,
			`lockmesh_leases`:              1,
			`lockmesh_waiting`:             0,
			`lockmesh_wait_oldest_seconds`: 0,
		})
		for name := range s.all() {
			if strings.Contains(name, "orders/1") || strings.Contains(name, "mine") {
				t.Errorf("the series %s has a key", name)
			}
		}
		unlock(t, mine)
		unlock(t, other)
	})
}

// An operator sees trouble early: no voter to spare; then no quorum, shrinking margins, and a lost
// lease.
func TestTheLossOfVotersIsMeasured(t *testing.T) {
	measured(t, 3, func(t *testing.T, m *meshtest.Mesh, s *scrape) {
		l := lock(t, m.Node("a"), "k")
		time.Sleep(time.Minute)
		s.is(map[string]float64{
			"lockmesh_ready": 1, "lockmesh_voters_needed": 2, "lockmesh_voters_spare": 1,
			`lockmesh_voters{state="reachable"}`: 3, `lockmesh_voters{state="unreachable"}`: 0,
		})
		healthy := s.margins()
		if healthy.below(.7) != 0 || healthy.below(.9) < 20 {
			t.Errorf("of the margins of a healthy mesh, %d are below 0.7, and %d below 0.9", healthy.below(.7), healthy.below(.9))
		}

		m.Crash("b")
		time.Sleep(5 * time.Second)
		s.is(map[string]float64{
			"lockmesh_ready": 1, "lockmesh_voters_spare": 0,
			`lockmesh_voters{state="reachable"}`: 2, `lockmesh_voters{state="unreachable"}`: 1,
		})

		m.Pause("c") // for nearly the length of the lease
		time.Sleep(7 * time.Second)
		m.Resume("c")
		time.Sleep(time.Second)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		if low := s.margins(); low.below(.4) == 0 {
			t.Error("a renewal in the last moment shows in no margin")
		}

		m.Crash("c")
		time.Sleep(20 * time.Second)
		s.is(map[string]float64{
			"lockmesh_ready": 0, "lockmesh_voters_spare": 0, `lockmesh_leases_ended_total{reason="lost"}`: 1, "lockmesh_leases": 0,
		})
	})
}

// An application that extends its leases late, as the clients of an agent may, is no sign of slow
// voters.
func TestALateExtensionByTheApplicationIsNoLowMargin(t *testing.T) {
	measured(t, 3, func(t *testing.T, m *meshtest.Mesh, s *scrape) {
		const ttl = 5 * time.Second
		l := lock(t, m.Node("a"), "k", lockmesh.WithTTL(ttl), lockmesh.WithoutRenewal())
		for range 10 {
			time.Sleep(ttl * 9 / 10)
			if err := l.Extend(t.Context(), ttl); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.margins().GetSampleCount(); n != 0 {
			t.Errorf("%d margins, %d of them low", n, s.margins().below(.3))
		}
	})
}

// margins is the histogram of lockmesh_lease_margin_ratio.
type margins struct{ *dto.Histogram }

func (s *scrape) margins() margins {
	s.t.Helper()
	synctest.Wait()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "lockmesh_lease_margin_ratio" {
			return margins{f.Metric[0].Histogram}
		}
	}
	s.t.Fatal("there is no lockmesh_lease_margin_ratio")
	return margins{}
}

// below returns how many margins were at most bound, a bound of the buckets.
func (h margins) below(bound float64) uint64 {
	for _, b := range h.Bucket {
		if b.GetUpperBound() == bound {
			return b.GetCumulativeCount()
		}
	}
	panic("no such bucket")
}

// A voter without a seat leaves no series behind.
func TestFormerVotersAreForgotten(t *testing.T) {
	measured(t, 4, func(t *testing.T, m *meshtest.Mesh, s *scrape) {
		l := lock(t, m.Node("a"), "k")
		time.Sleep(time.Minute)
		if s.all()[`lockmesh_refresh_rtt_seconds{voter="c"}`] == 0 {
			t.Error("the voter c isn't measured")
		}
		s.is(map[string]float64{"lockmesh_electorate_lost": 0, `lockmesh_voter_clock_drift{voter="c"}`: 0})
		m.Crash("c")
		time.Sleep(10 * time.Minute)
		got := s.all()
		for name := range got {
			if strings.Contains(name, `voter="c"`) {
				t.Errorf("%s is still there", name)
			}
		}
		if got[`lockmesh_refresh_rtt_seconds{voter="b"}`] == 0 || got["lockmesh_electorate_version"] <= 1 || got["lockmesh_electorate_changes_total"] == 0 {
			t.Errorf("%v", got)
		}
		unlock(t, l)
	}, meshtest.WithDynamicMembership())
}

// After the end of the node its counters stay, and no state is reported.
func TestAClosedNode(t *testing.T) {
	measured(t, 3, func(t *testing.T, m *meshtest.Mesh, s *scrape) {
		lock(t, m.Node("a"), "k")
		if err := m.Node("a").Close(); err != nil {
			t.Fatal(err)
		}
		got := s.all()
		if n := got[`lockmesh_leases_ended_total{reason="closed"}`]; n != 1 {
			t.Errorf("%v leases were ended by the end of the node, want 1", n)
		}
		for _, name := range []string{"lockmesh_ready", "lockmesh_leases", "lockmesh_voters_spare"} {
			if v, ok := got[name]; ok {
				t.Errorf("%s is %v", name, v)
			}
		}
	})
}

// Before the node has joined there is no state, and a scrape doesn't fail.
func TestAScrapeBeforeJoin(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(promlock.New())
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// The names of metrics follow the conventions, and each metric is listed in the comment of New.
func TestNamesAndTheirList(t *testing.T) {
	measured(t, 3, func(t *testing.T, m *meshtest.Mesh, s *scrape) {
		l := lock(t, m.Node("a"), "k")
		time.Sleep(time.Minute)
		if problems, err := testutil.GatherAndLint(s.registry); err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
		families, err := s.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		have := make(map[string]string) // the labels of each
		for _, f := range families {
			var names []string
			for _, l := range f.Metric[0].Label {
				if l.GetName() != "prefix" { // of an option
					names = append(names, l.GetName())
				}
			}
			have[f.GetName()] = strings.Join(names, ",")
		}
		text, err := os.ReadFile("metrics.go")
		if err != nil {
			t.Fatal(err)
		}
		listed := make(map[string]string)
		for _, row := range regexp.MustCompile(`(?m)^//\t(lockmesh_\w+)(?:\{([\w,]+)\})? `).FindAllStringSubmatch(string(text), -1) {
			listed[row[1]] = row[2]
		}
		if !maps.Equal(have, listed) {
			t.Errorf("there are\n%v\nand the comment of New lists\n%v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(listed)))
		}
		unlock(t, l)
	}, meshtest.WithDynamicMembership())
}

func TestMisuse(t *testing.T) {
	for name, misuse := range map[string]func(){
		"a nil mesh":                  func() { promlock.New().Watch(nil) },
		"a prefix that isn't a label": func() { promlock.New(promlock.WithPrefixes("a\xff")) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse()
		})
	}
}
