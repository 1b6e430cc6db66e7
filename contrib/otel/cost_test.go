package otellock_test

import (
	"context"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmesh/lockmesh"
	otellock "github.com/lockmesh/lockmesh/contrib/otel"
	"github.com/lockmesh/lockmesh/meshtest"
)

// BenchmarkObservers measures the cost of the observers for one lock: the calls of LockRequested,
// LockGranted and LeaseEnded, of which only the first runs in the goroutine that calls Lock. The
// first row is for comparison: a lock and its unlock on a node that is the only voter, in memory,
// without an observer. No exporter runs.
func BenchmarkObservers(b *testing.B) {
	b.Run("a lock alone", func(b *testing.B) {
		m := meshtest.New(b, 1, meshtest.WithMaxTTL(time.Second))
		m.Ready()
		b.ReportAllocs()
		for b.Loop() {
			l, err := m.Node("a").Lock(b.Context(), "orders/17")
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Unlock(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	metrics, err := otellock.NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), otellock.WithPrefixes("orders/"))
	if err != nil {
		b.Fatal(err)
	}
	spans := func(sampler sdktrace.Sampler) *lockmesh.Observer {
		s, err := otellock.NewSpans(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithSpanProcessor(discard{})), otellock.WithPrefixes("orders/"))
		if err != nil {
			b.Fatal(err)
		}
		return s.Observer()
	}
	asked := lockmesh.LockRequested{Op: "lock", Key: "orders/17", Mode: lockmesh.ModeExclusive, At: time.Now()}
	granted := lockmesh.LockGranted{Request: asked, At: time.Now(), Waited: time.Millisecond, Token: 1}
	ended := lockmesh.LeaseEnded{Request: asked, At: time.Now(), Held: time.Second, Token: 1, Reason: lockmesh.EndUnlocked}
	for _, row := range []struct {
		what     string
		observer *lockmesh.Observer
	}{
		{"metrics", metrics.Observer()},
		{"spans that aren't sampled", spans(sdktrace.NeverSample())},
		{"sampled spans", spans(sdktrace.AlwaysSample())},
		{"metrics and sampled spans", lockmesh.JoinObservers(spans(sdktrace.AlwaysSample()), metrics.Observer())},
	} {
		b.Run(row.what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx := b.Context()
				if row.observer.LockRequested != nil {
					ctx = row.observer.LockRequested(ctx, asked)
				}
				row.observer.LockGranted(ctx, granted)
				if row.observer.LeaseEnded != nil {
					row.observer.LeaseEnded(ctx, ended)
				}
			}
		})
	}
}

// discard is a processor that drops spans.
type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }
