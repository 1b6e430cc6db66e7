package otellock_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockmesh/lockmesh"
	otellock "github.com/lockmesh/lockmesh/contrib/otel"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestLocksAreMeasured(t *testing.T) {
	setUp{options: []otellock.Option{otellock.WithPrefixes("orders/", "orders/eu/", "or")}}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		a, b, ctx := m.Node("a"), m.Node("b"), t.Context()
		unlock(t, lock(ctx, t, a, "k"))
		unlock(t, lock(ctx, t, a, "orders/1"))
		unlock(t, lock(ctx, t, a, "orders/eu/1"))
		other := lock(ctx, t, b, "orders/2")
		if _, err := a.TryLock(ctx, "orders/2"); !errors.Is(err, lockmesh.ErrHeld) {
			t.Fatalf("the other holder isn't seen: %v", err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := a.Lock(within(ctx, t, 7*time.Second), "orders/2")
			done <- err
		}()
		time.Sleep(5 * time.Second)
		o.is(map[string]float64{"lockmesh.waiting": 1, "lockmesh.wait_oldest": 5, "lockmesh.leases": 0})
		if err := <-done; !errors.Is(err, lockmesh.ErrHeld) {
			t.Fatalf("the wait ends with %v", err)
		}
		mine := lock(ctx, t, a, "mine")
		o.is(map[string]float64{
			"lockmesh.acquire{op=lock,outcome=granted,prefix=}":           2,
			"lockmesh.acquire{op=lock,outcome=granted,prefix=orders/}":    1,
			"lockmesh.acquire{op=lock,outcome=granted,prefix=orders/eu/}": 1,
			"lockmesh.acquire{op=trylock,outcome=held,prefix=orders/}":    1,
			"lockmesh.acquire{op=lock,outcome=held,prefix=orders/}":       1,
			"lockmesh.leases_ended{reason=unlocked}":                      3,
			"lockmesh.leases_ended{reason=lost}":                          0,
			"lockmesh.leases":                                             1,
			"lockmesh.waiting":                                            0,
			"lockmesh.wait_oldest":                                        0,
		})
		unlock(t, mine)
		unlock(t, other)
	})
}

// The wait is measured in seconds, by a clock that never jumps.
func TestWaitsAreMeasuredInSeconds(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		other := lock(t.Context(), t, m.Node("b"), "k")
		if _, err := m.Node("a").Lock(within(t.Context(), t, 7*time.Second), "k"); err == nil {
			t.Fatal("two holders")
		}
		unlock(t, other)
		if h := o.histogram("lockmesh.acquire"); h.Count != 1 || h.Sum < 6.99 || h.Sum > 7.01 {
			t.Errorf("%d waits of %v s, want one of 7", h.Count, h.Sum)
		}
	})
}

// An operator sees trouble early: no voter to spare; then no quorum, shrinking margins, and a lost
// lease.
func TestTheLossOfVotersIsMeasured(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		l := lock(t.Context(), t, m.Node("a"), "k")
		time.Sleep(time.Minute)
		o.is(map[string]float64{
			"lockmesh.ready": 1, "lockmesh.voters_needed": 2, "lockmesh.voters_spare": 1,
			"lockmesh.voters{state=reachable}": 3, "lockmesh.voters{state=unreachable}": 0, "lockmesh.pauses": 0,
		})
		healthy := o.histogram("lockmesh.lease.margin_ratio")
		if below(healthy, .7) != 0 || below(healthy, .9) < 20 {
			t.Errorf("of the margins of a healthy mesh, %d are below 0.7, and %d below 0.9", below(healthy, .7), below(healthy, .9))
		}

		m.Crash("b")
		time.Sleep(5 * time.Second)
		o.is(map[string]float64{
			"lockmesh.ready": 1, "lockmesh.voters_spare": 0,
			"lockmesh.voters{state=reachable}": 2, "lockmesh.voters{state=unreachable}": 1,
		})

		m.Pause("c") // for nearly the length of the lease
		time.Sleep(7 * time.Second)
		m.Resume("c")
		time.Sleep(time.Second)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		if low := o.histogram("lockmesh.lease.margin_ratio"); below(low, .4) == 0 {
			t.Error("a renewal in the last moment shows in no margin")
		}

		m.Crash("c")
		time.Sleep(20 * time.Second)
		o.is(map[string]float64{
			"lockmesh.ready": 0, "lockmesh.voters_spare": 0, "lockmesh.leases_ended{reason=lost}": 1, "lockmesh.leases": 0,
		})
		if _, err := m.Node("a").TryLock(within(t.Context(), t, 5*time.Second), "k"); !errors.Is(err, lockmesh.ErrNoQuorum) {
			t.Fatal(err)
		}
		o.is(map[string]float64{"lockmesh.acquire{op=trylock,outcome=no_quorum}": 1})
	})
}

// A restarted voter is quiet, and its votes don't count for a MaxTTL.
func TestTheQuietTimeIsMeasured(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		o.is(map[string]float64{"lockmesh.quiet": 0})
		m.Crash("a")
		o.watch(m.Restart("a"))
		time.Sleep(2 * time.Second)
		got := o.series()
		if q := got["lockmesh.quiet"]; q < 7 || q > 8.5 || got["lockmesh.voters{state=quiet}"] != 1 {
			t.Errorf("two seconds after the start of a voter: %v", got)
		}
	})
}

func TestPausesAreMeasured(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		m.Pause("a")
		time.Sleep(3 * time.Second)
		m.Resume("a")
		time.Sleep(time.Second)
		got := o.series()
		if got["lockmesh.pauses"] != 1 || got["lockmesh.paused"] < 2.5 || got["lockmesh.paused"] > 3 {
			t.Errorf("%v pauses of %v s, want one of nearly 3", got["lockmesh.pauses"], got["lockmesh.paused"])
		}
	})
}

func TestClocksAreMeasured(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		m.SetClock("b", 3*time.Second)
		time.Sleep(time.Minute)
		got := o.series()
		if d := got["lockmesh.voter.clock_offset{voter=b}"]; d < 2.99 || d > 3.01 {
			t.Errorf("the clock of b is 3 s ahead, and the offset is %v", d)
		}
		if d, ok := got["lockmesh.voter.clock_offset{voter=c}"]; !ok || d < -.01 || d > .01 {
			t.Errorf("the clock of c is right, and the offset is %v (there: %v)", d, ok)
		}
	})
}

// A voter without a seat is no longer reported, and the change of the electorate is measured.
func TestTheElectorateIsMeasured(t *testing.T) {
	setUp{nodes: 4, mesh: []meshtest.Option{meshtest.WithDynamicMembership()}}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		l := lock(t.Context(), t, m.Node("a"), "k")
		time.Sleep(time.Minute)
		before := o.series()
		if before["lockmesh.refresh.rtt{voter=c}"] == 0 {
			t.Error("the voter c isn't measured")
		}
		o.is(map[string]float64{
			"lockmesh.electorate.lost": 0, "lockmesh.electorate.trouble": 0, "lockmesh.electorate.joint": 0,
			"lockmesh.voter.clock_drift{voter=c}": 0,
		})
		m.Crash("c")
		o.until("lockmesh.electorate.joint", 10)
		time.Sleep(10 * time.Minute)
		after := o.series()
		if after["lockmesh.electorate.version"] <= before["lockmesh.electorate.version"] || after["lockmesh.electorate.changes"] == 0 {
			t.Errorf("before the change %v, and after it %v", before, after)
		}
		for name := range after {
			if strings.Contains(name, "voter=c") && !strings.HasPrefix(name, "lockmesh.refresh.rtt") {
				t.Errorf("%s is still there", name)
			}
		}
		unlock(t, l)
		m.Crash("b")
		m.Crash("d")
		o.until("lockmesh.electorate.lost", 30)
	})
}

// Names of voters may be random and ever new. Only the round trips of the first names have series
// of their own.
func TestTheNamesOfVotersAreBounded(t *testing.T) {
	o := setUp{}.telemetry(t)
	renewed := o.metrics.Observer().RefreshAnswered
	const names = 4*lockmesh.MaxVoters + 50
	for i := range names {
		renewed(lockmesh.RefreshAnswered{Voter: "pod-" + strconv.Itoa(i), RoundTrip: time.Millisecond})
		renewed(lockmesh.RefreshAnswered{Voter: "pod-0", RoundTrip: time.Millisecond})
	}
	got := series(collect(t, o.reader))
	for name, want := range map[string]float64{
		"lockmesh.refresh.rtt{voter=pod-0}":                                            names + 1,
		"lockmesh.refresh.rtt{voter=pod-" + strconv.Itoa(4*lockmesh.MaxVoters-1) + "}": 1,
		"lockmesh.refresh.rtt{voter=_OTHER}":                                           50,
	} {
		if got[name] != want {
			t.Errorf("%s has %v round trips, want %v", name, got[name], want)
		}
	}
	if len(got) != 4*lockmesh.MaxVoters+1 {
		t.Errorf("there are %d time series", len(got))
	}
}

// After the end of the node its counters stay, and no state is reported.
func TestAClosedNode(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		lock(t.Context(), t, m.Node("a"), "k")
		if err := m.Node("a").Close(); err != nil {
			t.Fatal(err)
		}
		got := o.series()
		if n := got["lockmesh.leases_ended{reason=closed}"]; n != 1 {
			t.Errorf("%v leases were ended by the end of the node, want 1", n)
		}
		for _, name := range []string{"lockmesh.ready", "lockmesh.leases", "lockmesh.voters_spare"} {
			if v, ok := got[name]; ok {
				t.Errorf("%s is %v", name, v)
			}
		}
	})
}

// Watch begins and Close ends the description of the node; histograms are apart from both.
func TestWatchAndClose(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		unlock(t, lock(t.Context(), t, m.Node("a"), "k"))
		for range 2 {
			if err := o.metrics.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for name := range o.series() {
			if !strings.HasPrefix(name, "lockmesh.acquire") && !strings.HasPrefix(name, "lockmesh.refresh.rtt") && !strings.HasPrefix(name, "lockmesh.lease.margin_ratio") {
				t.Errorf("after Close there is %s", name)
			}
		}
		o.watch(m.Node("a"))
		o.watch(m.Node("a")) // in place of the node before
		o.is(map[string]float64{"lockmesh.ready": 1, "lockmesh.leases_ended{reason=unlocked}": 1})
	})
}

func TestBeforeTheNodeHasJoined(t *testing.T) {
	o := setUp{}.telemetry(t)
	if got := series(collect(t, o.reader)); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
	if err := o.metrics.Close(); err != nil {
		t.Error(err)
	}
}

// An attribute tells two nodes in one process apart.
func TestAttributesOfANode(t *testing.T) {
	setUp{options: []otellock.Option{otellock.WithAttributes(attribute.String("mesh", "orders"))}}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		unlock(t, lock(t.Context(), t, m.Node("a"), "k"))
		time.Sleep(time.Minute)
		all := points(o.collect())
		if len(all) < 30 {
			t.Fatalf("there are only %d time series", len(all))
		}
		for _, p := range all {
			if v, _ := p.attrs.Value("mesh"); v.AsString() != "orders" {
				t.Errorf("%s has no attribute mesh", p.name())
			}
		}
		for _, s := range o.ended.Ended() {
			if attributes(s)["mesh"] != "orders" {
				t.Errorf("the span %s has %v", s.Name(), attributes(s))
			}
		}
		if len(o.ended.Ended()) != 2 {
			t.Errorf("%d spans, want 2", len(o.ended.Ended()))
		}
	})
}

// A measurement of a sampled attempt leads to the trace.
func TestExemplarsNameTheSpanOfTheAttempt(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		ctx, cancel := context.WithCancel(t.Context())
		other := lock(t.Context(), t, m.Node("b"), "k")
		time.AfterFunc(time.Second, cancel)
		if _, err := m.Node("a").Lock(ctx, "k"); err == nil {
			t.Fatal("two holders")
		}
		unlock(t, other)
		want := o.one("lockmesh lock").SpanContext()
		h := o.histogram("lockmesh.acquire")
		if len(h.Exemplars) != 1 || !sameSpan(h.Exemplars[0], want.TraceID(), want.SpanID()) {
			t.Errorf("the exemplars are %+v, and the span is %v", h.Exemplars, want.SpanID())
		}
	})
}

func sameSpan(e metricdata.Exemplar[float64], traceID [16]byte, spanID [8]byte) bool {
	return string(e.TraceID) == string(traceID[:]) && string(e.SpanID) == string(spanID[:])
}
