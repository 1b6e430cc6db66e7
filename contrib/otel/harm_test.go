package otellock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmesh/lockmesh"
	otellock "github.com/lockmesh/lockmesh/contrib/otel"
	"github.com/lockmesh/lockmesh/meshtest"
)

// hanging is an exporter that hangs until a channel is closed, or until the test sends a value.
type hanging struct {
	sdkmetric.Exporter
	until chan struct{} // nil: no hang
	began atomic.Int64
}

func (h *hanging) hang() error {
	h.began.Add(1)
	if h.until != nil {
		<-h.until
	}
	return nil
}

func (h *hanging) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return h.hang() }
func (h *hanging) Export(context.Context, *metricdata.ResourceMetrics) error  { return h.hang() }
func (h *hanging) Shutdown(context.Context) error                             { return nil }
func (h *hanging) ForceFlush(context.Context) error                           { return nil }
func (h *hanging) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}
func (h *hanging) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

// An exporter of spans hangs for an hour: no lease is lost and no lock waits. Events are dropped,
// and the metrics count the dropped events.
func TestAHangingExporterOfSpansHarmsNoLease(t *testing.T) {
	exporter := new(hanging)
	setUp{
		provider: []sdktrace.TracerProviderOption{sdktrace.WithSyncer(exporter)},
		spans:    []otellock.SpansOption{otellock.WithKeys("")},
	}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		a, ctx := m.Node("a"), t.Context()
		exporter.until = make(chan struct{})
		l := lock(ctx, t, a, "kept")
		for i := range 4200 { // the queue has room for 4,096 events
			began := time.Now()
			unlock(t, lock(ctx, t, a, fmt.Sprint("busy-", i)))
			if d := time.Since(began); d > 100*time.Millisecond {
				t.Fatalf("a lock takes %v", d)
			}
		}
		late := lock(ctx, t, a, "late")
		time.Sleep(time.Hour)
		if err := errors.Join(l.Err(), late.Err()); err != nil {
			t.Fatal(err)
		}
		if n := exporter.began.Load(); n != 1 {
			t.Errorf("%d exports have begun, want one that hangs", n)
		}
		o.until("lockmesh.dropped{what=observer_event}", 1)

		// The event of a grant was dropped, but not the event of the lease's end: no span is
		// missing.
		close(exporter.until)
		synctest.Wait()
		unlock(t, late)
		synctest.Wait()
		spans := make(map[string]sdktrace.ReadOnlySpan)
		for _, s := range o.ended.Ended() {
			if attributes(s)["lockmesh.key"] == "late" {
				spans[s.Name()] = s
			}
		}
		attempt, lease := spans["lockmesh lock"], spans["lockmesh lease"]
		if attempt == nil || lease == nil {
			t.Fatalf("of a lock whose grant wasn't told there are the spans %v", spans)
		}
		if d := lease.EndTime().Sub(attempt.EndTime()); d < time.Hour || attributes(attempt)["lockmesh.outcome"] != "granted" {
			t.Errorf("the attempt with %v ends %v before the lease", attributes(attempt), d)
		}
		unlock(t, l)
	})
}

// An exporter of metrics hangs in a reader's goroutine.
func TestAHangingExporterOfMetricsHarmsNoLease(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		exporter := &hanging{until: make(chan struct{})}
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithInterval(time.Second))))
		metrics, err := otellock.NewMetrics(provider)
		if err != nil {
			t.Fatal(err)
		}
		if err := metrics.Watch(m.Node("a")); err != nil {
			t.Fatal(err)
		}
		l := lock(t.Context(), t, m.Node("a"), "k")
		time.Sleep(time.Hour)
		if n := exporter.began.Load(); n != 1 {
			t.Errorf("%d exports have begun, want one that hangs", n)
		}
		unlock(t, lock(t.Context(), t, m.Node("a"), "k2"))
		unlock(t, l)
		o.is(map[string]float64{
			"lockmesh.leases_ended{reason=unlocked}": 2, "lockmesh.leases_ended{reason=lost}": 0, "lockmesh.dropped{what=observer_event}": 0,
		})
		close(exporter.until)
		synctest.Wait()
		if err := errors.Join(metrics.Close(), provider.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// slowStart hangs as a span named "slow" has begun a child.
type slowStart struct {
	sdktrace.SpanProcessor
	until chan struct{}
}

type slow struct{}

func (s *slowStart) OnStart(ctx context.Context, _ sdktrace.ReadWriteSpan) {
	if ctx.Value(slow{}) != nil {
		<-s.until
	}
}
func (s *slowStart) OnEnd(sdktrace.ReadOnlySpan) {}

// A processor that hangs at the beginning of a span delays its own caller, before any request is
// sent.
func TestASlowBeginningOfASpanDelaysItsCallerAlone(t *testing.T) {
	processor := new(slowStart)
	setUp{provider: []sdktrace.TracerProviderOption{sdktrace.WithSpanProcessor(processor)}}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		processor.until = make(chan struct{})
		a := m.Node("a")
		l := lock(t.Context(), t, a, "kept")
		done := make(chan *lockmesh.Lease)
		go func() {
			lease, err := a.Lock(context.WithValue(t.Context(), slow{}, true), "k")
			if err != nil {
				t.Error(err)
			}
			done <- lease
		}()
		time.Sleep(time.Hour)
		unlock(t, lock(t.Context(), t, a, "k")) // the delayed caller hasn't queued for the key
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		close(processor.until)
		unlock(t, <-done)
		unlock(t, l)
	})
}

// The panics of another observer are counted, and the lock is measured nevertheless.
func TestPanicsOfObserversAreMeasured(t *testing.T) {
	panics := &lockmesh.Observer{LockGranted: func(context.Context, lockmesh.LockGranted) { panic("as a test wants") }}
	setUp{beside: panics}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		unlock(t, lock(t.Context(), t, m.Node("a"), "k"))
		o.is(map[string]float64{"lockmesh.observer.panics": 1, "lockmesh.acquire{op=lock,outcome=granted}": 1})
		o.one("lockmesh lock")
	})
}
