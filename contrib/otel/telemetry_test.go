package otellock_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmesh/lockmesh"
	otellock "github.com/lockmesh/lockmesh/contrib/otel"
	"github.com/lockmesh/lockmesh/meshtest"
)

// telemetry has the metrics and spans of one node, and the SDK that collects both.
type telemetry struct {
	t       *testing.T
	reader  *sdkmetric.ManualReader
	metrics *otellock.Metrics
	spans   *otellock.Spans
	ended   *tracetest.SpanRecorder
	tracer  trace.Tracer // the application's
}

// setUp has the differences between the nodes of tests.
type setUp struct {
	options    []otellock.Option
	spans      []otellock.SpansOption
	readers    []sdkmetric.Reader // beside the telemetry's
	provider   []sdktrace.TracerProviderOption
	beside     *lockmesh.Observer // called first
	mesh       []meshtest.Option
	nodes      int                        // 3 unless set
	configured func(cfg *lockmesh.Config) // for all nodes
}

// run runs a test in simulated time, with a mesh in which node a has telemetry.
func (s setUp) run(t *testing.T, f func(t *testing.T, m *meshtest.Mesh, o *telemetry)) {
	t.Helper()
	o := s.telemetry(t)
	if s.nodes == 0 {
		s.nodes = 3
	}
	observer := lockmesh.JoinObservers(s.beside, o.spans.Observer(), o.metrics.Observer())
	options := append(slices.Clone(s.mesh), meshtest.WithConfig(func(cfg *lockmesh.Config) {
		if cfg.Name == "a" {
			cfg.Observer = observer
		}
		if s.configured != nil {
			s.configured(cfg)
		}
	}))
	meshtest.Run(t, s.nodes, func(t *testing.T, m *meshtest.Mesh) {
		o.t = t
		o.watch(m.Node("a"))
		f(t, m, o)
	}, options...)
}

// telemetry returns the telemetry of a node that is yet to join.
func (s setUp) telemetry(t *testing.T) *telemetry {
	t.Helper()
	o := &telemetry{t: t, reader: sdkmetric.NewManualReader(), ended: tracetest.NewSpanRecorder()}
	readers := []sdkmetric.Option{sdkmetric.WithReader(o.reader)}
	for _, r := range s.readers {
		readers = append(readers, sdkmetric.WithReader(r))
	}
	var metricsOptions []otellock.MetricsOption
	spansOptions := slices.Clone(s.spans)
	for _, option := range s.options {
		metricsOptions, spansOptions = append(metricsOptions, option), append(spansOptions, option)
	}
	var err error
	if o.metrics, err = otellock.NewMetrics(sdkmetric.NewMeterProvider(readers...), metricsOptions...); err != nil {
		t.Fatal(err)
	}
	traces := sdktrace.NewTracerProvider(append(slices.Clone(s.provider), sdktrace.WithSpanProcessor(o.ended))...)
	if o.spans, err = otellock.NewSpans(traces, spansOptions...); err != nil {
		t.Fatal(err)
	}
	o.tracer = traces.Tracer("the application")
	t.Cleanup(func() {
		if err := o.metrics.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *telemetry) watch(mesh *lockmesh.Mesh) {
	o.t.Helper()
	if err := o.metrics.Watch(mesh); err != nil {
		o.t.Fatal(err)
	}
}

// collect returns all metrics as exporters get them.
func (o *telemetry) collect() []metricdata.Metrics {
	o.t.Helper()
	synctest.Wait() // the observer runs in a goroutine of its own
	return collect(o.t, o.reader)
}

func collect(t *testing.T, reader *sdkmetric.ManualReader) (all []metricdata.Metrics) {
	t.Helper()
	var of metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &of); err != nil {
		t.Fatal(err)
	}
	for _, scope := range of.ScopeMetrics {
		all = append(all, scope.Metrics...)
	}
	return all
}

// point is one time series. The value of a histogram is the number of its measurements.
type point struct {
	metric string
	attrs  attribute.Set
	value  float64
}

// name returns a name like "lockmesh.voters{state=quiet}".
func (p point) name() string {
	var parts []string
	for _, a := range p.attrs.ToSlice() {
		parts = append(parts, string(a.Key)+"="+a.Value.String())
	}
	if parts == nil {
		return p.metric
	}
	return p.metric + "{" + strings.Join(parts, ",") + "}"
}

func points(metrics []metricdata.Metrics) (all []point) {
	for _, m := range metrics {
		switch data := m.Data.(type) {
		case metricdata.Gauge[int64]:
			all = append(all, numbers(m.Name, data.DataPoints)...)
		case metricdata.Gauge[float64]:
			all = append(all, numbers(m.Name, data.DataPoints)...)
		case metricdata.Sum[int64]:
			all = append(all, numbers(m.Name, data.DataPoints)...)
		case metricdata.Sum[float64]:
			all = append(all, numbers(m.Name, data.DataPoints)...)
		case metricdata.Histogram[float64]:
			for _, d := range data.DataPoints {
				all = append(all, point{m.Name, d.Attributes, float64(d.Count)})
			}
		default:
			panic(fmt.Sprintf("%s is a %T", m.Name, m.Data))
		}
	}
	return all
}

func numbers[N int64 | float64](name string, of []metricdata.DataPoint[N]) (all []point) {
	for _, d := range of {
		all = append(all, point{name, d.Attributes, float64(d.Value)})
	}
	return all
}

// series returns the values of all time series by name and attributes.
func series(metrics []metricdata.Metrics) map[string]float64 {
	all := make(map[string]float64)
	for _, p := range points(metrics) {
		all[p.name()] = p.value
	}
	return all
}

func (o *telemetry) series() map[string]float64 {
	o.t.Helper()
	return series(o.collect())
}

// is checks that time series have values.
func (o *telemetry) is(want map[string]float64) {
	o.t.Helper()
	got := o.series()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have, ok := got[name]; !ok || math.Abs(have-want[name]) > 1e-9 {
			o.t.Errorf("%s is %v (there: %v), want %v", name, have, ok, want[name])
		}
	}
}

// until collects ten times a second until a time series has a value of more than zero, for up to a
// number of simulated minutes.
func (o *telemetry) until(name string, minutes int) {
	o.t.Helper()
	for range minutes * 600 {
		if o.series()[name] > 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	o.t.Fatalf("%s is still not above 0 after %d minutes", name, minutes)
}

// histogram returns the time series of a histogram without attributes.
func (o *telemetry) histogram(name string) metricdata.HistogramDataPoint[float64] {
	o.t.Helper()
	for _, m := range o.collect() {
		if m.Name == name {
			return m.Data.(metricdata.Histogram[float64]).DataPoints[0]
		}
	}
	o.t.Fatalf("there is no %s", name)
	panic("not reached")
}

// below returns how many measurements were at most bound, a bound of the buckets.
func below(h metricdata.HistogramDataPoint[float64], bound float64) (n uint64) {
	at := slices.Index(h.Bounds, bound)
	if at < 0 {
		panic("no such bound")
	}
	for _, c := range h.BucketCounts[:at+1] {
		n += c
	}
	return n
}

// named returns the ended spans with a name, in the order of their ends.
func (o *telemetry) named(name string) (all []sdktrace.ReadOnlySpan) {
	synctest.Wait()
	for _, s := range o.ended.Ended() {
		if s.Name() == name {
			all = append(all, s)
		}
	}
	return all
}

// one returns the only ended span with a name.
func (o *telemetry) one(name string) sdktrace.ReadOnlySpan {
	o.t.Helper()
	all := o.named(name)
	if len(all) != 1 {
		o.t.Fatalf("there are %d spans named %q, want 1", len(all), name)
	}
	return all[0]
}

// attributes returns the attributes of a span as text.
func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	all := make(map[string]string)
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// has checks the attributes of a span, except the token, which a test can't know.
func (o *telemetry) has(s sdktrace.ReadOnlySpan, want map[string]string) {
	o.t.Helper()
	got := attributes(s)
	delete(got, "lockmesh.token")
	if !maps.Equal(got, want) {
		o.t.Errorf("%s has the attributes %v, want %v", s.Name(), got, want)
	}
}

func within(ctx context.Context, t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	t.Cleanup(cancel)
	return ctx
}

func lock(ctx context.Context, t *testing.T, m *lockmesh.Mesh, key string) *lockmesh.Lease {
	t.Helper()
	l, err := m.Lock(ctx, key)
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
