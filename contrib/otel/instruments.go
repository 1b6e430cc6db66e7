package otellock

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The names of the metrics' attributes are those of the labels of contrib/prometheus, and so are
// the names of metrics after an exporter's translation for Prometheus: the alerts and the dashboard
// in deploy fit both. A flag and a version have no unit, since exporters append "_ratio" to the
// name of a gauge with the unit "1".
const (
	ofState   attribute.Key = "state"
	ofOp      attribute.Key = "op"
	ofOutcome attribute.Key = "outcome"
	ofPrefix  attribute.Key = "prefix"
	ofReason  attribute.Key = "reason"
	ofVoter   attribute.Key = "voter"
	ofWhat    attribute.Key = "what"
)

var metricAttributes = []attribute.Key{
	ofState, ofOp, ofOutcome, ofPrefix, ofReason, ofVoter, ofWhat,
}

// The bounds of the histograms' buckets, in seconds and as ratios, equal to those of
// contrib/prometheus. They are advice: a view of the application's MeterProvider may choose others.
var (
	// A lock that is free takes a round trip: tens of microseconds on a machine, milliseconds
	// between zones. A wait behind other holders lasts up to minutes.
	acquireBounds = []float64{
		.0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300,
	}
	// A lease is renewed with about 0.8 of its TTL left, and lost at 0.
	marginBounds = []float64{.05, .1, .2, .3, .4, .5, .6, .7, .75, .8, .9}
	// A voter that takes longer than a fifth of a TTL delays renewals.
	roundTripBounds = []float64{
		.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5,
	}
)

// instruments are the instruments of a node: histograms for the observer, and instruments that are
// read from the node at each collection.
type instruments struct {
	acquire, margin, roundTrip metric.Float64Histogram

	ready, voters, needed, spare, leases, waiting    metric.Int64Observable
	version, lost, trouble, rate, drift, peers, open metric.Int64Observable

	ended, changes, refused, dropped, failed, panics, pauses metric.Int64Observable

	oldest, offset, quiet, joint, busy, paused metric.Float64Observable
}

// newInstruments creates all instruments, and returns those that are read from the node as a list,
// too.
func newInstruments(meter metric.Meter) (*instruments, []metric.Observable, error) {
	f := &factory{meter: meter}
	in := &instruments{
		acquire: f.histogram("lockmesh.acquire", "s", acquireBounds,
			"Time from a call for a lock to its outcome: granted, or the reason of the error."),
		margin: f.histogram("lockmesh.lease.margin_ratio", "1", marginBounds,
			"Time left of the leases when a majority had confirmed the renewal, as a part "+
				"of their TTL: 0.8 is usual, and at 0 leases are lost."),
		roundTrip: f.histogram("lockmesh.refresh.rtt", "s", roundTripBounds,
			"Time from a refresh of the leases to a voter's answer."),

		ready: f.gauge("lockmesh.ready", "",
			"1 if locks can be granted: a majority of the voters answers this node and counts."),
		voters: f.sum("lockmesh.voters", "{voter}",
			"Number of voters by state, as seen by this node; reachable voters count."),
		needed: f.gauge("lockmesh.voters_needed", "{voter}",
			"Number of voters needed for a majority."),
		spare: f.gauge("lockmesh.voters_spare", "{voter}",
			"Number of counting voters that may fail, whichever they are, with a majority left."),
		leases: f.sum("lockmesh.leases", "{lease}",
			"Number of leases held by this node."),
		ended: f.counter("lockmesh.leases_ended", "{lease}",
			"Number of leases of this node that have ended, by reason."),
		waiting: f.sum("lockmesh.waiting", "{request}",
			"Number of requests for locks not granted yet."),
		oldest: f.secondsGauge("lockmesh.wait_oldest",
			"Age of the oldest request not granted yet."),
		offset: f.secondsGauge("lockmesh.voter.clock_offset",
			"By how much the wall clock of a voter is ahead of this node's."),
		rate: f.gauge("lockmesh.voter.clock_drift_ppm", "",
			"By how much the clock of a voter runs faster than this node's, in parts per million; 0 while unknown."),
		drift: f.gauge("lockmesh.voter.clock_drift", "",
			"1 if the clock of a voter gains more on this node's than exclusion assumes."),
		quiet: f.secondsGauge("lockmesh.quiet",
			"Time until this node's own votes count, after its start."),
		version: f.gauge("lockmesh.electorate.version", "",
			"Version of the electorate of dynamic membership."),
		joint: f.secondsGauge("lockmesh.electorate.joint",
			"For how long the electorate is being changed; 0 if it isn't."),
		changes: f.counter("lockmesh.electorate.changes", "{change}",
			"Number of versions of the electorate that have come."),
		lost: f.gauge("lockmesh.electorate.lost", "",
			"1 if there may never be a majority of the voters again without an operator."),
		trouble: f.gauge("lockmesh.electorate.trouble", "",
			"1 if this node can't take part in changes of the electorate."),
		peers: f.gauge("lockmesh.refused_peers", "{node}",
			"Number of live nodes of the mesh with another configuration."),
		refused: f.counter("lockmesh.refused", "{connection}",
			"Number of connections refused by this node or by the other side, by reason."),
		dropped: f.counter("lockmesh.dropped", "{item}",
			"Number of things lost since an application, a network or a node was too slow."),
		open: f.sum("lockmesh.handshakes.open", "{handshake}",
			"Number of connections with an unfinished handshake."),
		failed: f.counter("lockmesh.handshakes.failed", "{handshake}",
			"Number of handshakes that have come to nothing, by reason."),
		panics: f.counter("lockmesh.observer.panics", "{panic}",
			"Number of panics of the application's observers."),
		busy: f.secondsCounter("lockmesh.loop.busy",
			"Time for which the loop of the node has worked."),
		pauses: f.counter("lockmesh.pauses", "{pause}",
			"Number of times at which the node didn't run for 0.1 s or longer with work to do."),
		paused: f.secondsCounter("lockmesh.paused",
			"Length of all pauses together."),
	}
	return in, f.observables, errors.Join(f.errs...)
}

// factory creates instruments, and keeps the observable instruments and all errors.
type factory struct {
	meter       metric.Meter
	observables []metric.Observable
	errs        []error
}

func (f *factory) histogram(
	name, unit string, bounds []float64, help string,
) metric.Float64Histogram {
	h, err := f.meter.Float64Histogram(name,
		metric.WithUnit(unit), metric.WithDescription(help),
		metric.WithExplicitBucketBoundaries(bounds...))
	if err != nil {
		f.errs = append(f.errs, err)
	}
	return h
}

// gauge creates an instrument for a number whose sum over nodes means nothing.
func (f *factory) gauge(name, unit, help string) metric.Int64Observable {
	g, err := f.meter.Int64ObservableGauge(name,
		metric.WithUnit(unit), metric.WithDescription(help))
	return keep(f, metric.Int64Observable(g), err)
}

// sum creates an instrument for a number that rises and falls, and can be summed up.
func (f *factory) sum(name, unit, help string) metric.Int64Observable {
	s, err := f.meter.Int64ObservableUpDownCounter(name,
		metric.WithUnit(unit), metric.WithDescription(help))
	return keep(f, metric.Int64Observable(s), err)
}

func (f *factory) counter(name, unit, help string) metric.Int64Observable {
	c, err := f.meter.Int64ObservableCounter(name,
		metric.WithUnit(unit), metric.WithDescription(help))
	return keep(f, metric.Int64Observable(c), err)
}

func (f *factory) secondsGauge(name, help string) metric.Float64Observable {
	g, err := f.meter.Float64ObservableGauge(name,
		metric.WithUnit("s"), metric.WithDescription(help))
	return keep(f, metric.Float64Observable(g), err)
}

func (f *factory) secondsCounter(name, help string) metric.Float64Observable {
	c, err := f.meter.Float64ObservableCounter(name,
		metric.WithUnit("s"), metric.WithDescription(help))
	return keep(f, metric.Float64Observable(c), err)
}

// keep notes a created instrument, or the error.
func keep[O metric.Observable](f *factory, o O, err error) O {
	if err != nil {
		f.errs = append(f.errs, err)
	}
	f.observables = append(f.observables, o)
	return o
}
