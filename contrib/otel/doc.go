// Package otellock has the OpenTelemetry metrics and spans of a lockmesh node. [Metrics] measures
// how long locks take and why they fail, with how much time to spare leases are renewed, which
// voters count, and what the node lost or refused. [Spans] makes a span for each attempt to lock,
// beneath the caller's span, and another span for each lease.
//
//	metrics, err := otellock.NewMetrics(otel.GetMeterProvider())
//	if err != nil { … }
//	spans, err := otellock.NewSpans(otel.GetTracerProvider())
//	if err != nil { … }
//
//	cfg.Observer = lockmesh.JoinObservers(spans.Observer(), metrics.Observer())
//	mesh, err := lockmesh.Join(ctx, cfg)
//	if err != nil { … }
//	err = metrics.Watch(mesh)
//
// [NewMetrics] lists the metrics, [NewSpans] the attributes of spans. docs/monitoring.md of
// lockmesh says what each metric means, and what to do when an alert fires.
//
// The attributes of metrics have few values, known before, except for the names of voters. A key is
// never an attribute of a metric; to measure some locks apart, name their prefixes with
// [WithPrefixes]. A span has no key either, unless [WithKeys] allows the key.
//
// An exporter that is slow, blocks or panics harms no lease: the node passes events to the
// observers through a bounded queue and never waits. Only the beginning of a span runs in the
// goroutine that calls Lock, before anything is requested: a sampler or a span processor that is
// slow to begin a span delays this call of Lock, and no other.
package otellock

// scope names the instrumentation in all exported telemetry.
const scope = "github.com/lockmesh/lockmesh/contrib/otel"
