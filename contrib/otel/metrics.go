package otellock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockmesh/lockmesh"
)

// Metrics are the metrics of one node. All methods may be called from any goroutine.
type Metrics struct {
	config
	*instruments
	meter       metric.Meter
	observables []metric.Observable
	mesh        atomic.Pointer[lockmesh.Mesh] // nil before Watch and after Close

	mu           sync.Mutex
	registration metric.Registration // nil before Watch and after Close
	outcomes     map[outcome]metric.MeasurementOption
	voterOptions map[string]metric.MeasurementOption
}

// outcome has the attributes of lockmesh.acquire. Their values are few.
type outcome struct {
	op, prefix string
	outcome    lockmesh.Outcome
}

// NewMetrics returns the metrics of a node that is yet to join. [Metrics.Observer] belongs into the
// node's configuration, and [Metrics.Watch] is called once the node has joined. [Metrics.Close]
// ends what Watch has begun. The metrics, with their attributes in braces and their units:
//
//	lockmesh.ready                               locks can be granted, as far as this node sees
//	lockmesh.voters{state}             {voter}   voters by state
//	lockmesh.voters_needed             {voter}   voters needed for a majority
//	lockmesh.voters_spare              {voter}   voters that may fail with a majority left
//	lockmesh.acquire{op,outcome}       s         from the call to the grant or the error
//	lockmesh.leases                    {lease}   leases held
//	lockmesh.leases_ended{reason}      {lease}   leases that have ended
//	lockmesh.waiting                   {request} requests not granted yet
//	lockmesh.wait_oldest               s         the age of the oldest such request
//	lockmesh.lease.margin_ratio        1         time left of the leases at their renewal
//	lockmesh.refresh.rtt{voter}        s         round trips of refreshes
//	lockmesh.voter.clock_offset{voter} s         the voter's wall clock ahead of this node's
//	lockmesh.voter.clock_drift_ppm{voter}        by how much the voter's clock runs faster
//	lockmesh.voter.clock_drift{voter}            1: the voter's clock gains more than is assumed
//	lockmesh.quiet                     s         until this node's own votes count
//	lockmesh.electorate.version                  of dynamic membership
//	lockmesh.electorate.joint          s         for how long the electorate is being changed
//	lockmesh.electorate.changes        {change}  versions that came
//	lockmesh.electorate.lost                     1: there may never be a majority again
//	lockmesh.electorate.trouble                  1: this node can't take part in changes
//	lockmesh.refused_peers             {node}    live nodes with another configuration
//	lockmesh.refused{reason}           {connection} connections refused
//	lockmesh.dropped{what}             {item}    things lost where an application was too slow
//	lockmesh.handshakes.open           {handshake} unfinished handshakes
//	lockmesh.handshakes.failed{reason} {handshake} handshakes that came to nothing
//	lockmesh.observer.panics           {panic}   panics of observers
//	lockmesh.loop.busy                 s         work of the node's loop
//	lockmesh.pauses                    {pause}   times at which the node didn't run
//	lockmesh.paused                    s         the length of all pauses together
//
// lockmesh.acquire, lockmesh.lease.margin_ratio and lockmesh.refresh.rtt are histograms with advice
// for the bounds of their buckets.
//
// The error is [lockmesh.ErrConfig] for a nil provider and for an option that can't be used, or the
// provider's error.
func NewMetrics(provider metric.MeterProvider, options ...MetricsOption) (*Metrics, error) {
	m := &Metrics{
		outcomes:     make(map[outcome]metric.MeasurementOption),
		voterOptions: make(map[string]metric.MeasurementOption),
	}
	if provider == nil {
		return nil, misuse("NewMetrics", errors.New(
			"the provider is nil; pass the application's, or otel.GetMeterProvider()"))
	}
	for _, o := range options {
		o.forMetrics(&m.config)
	}
	if err := m.check(); err != nil {
		return nil, misuse("NewMetrics", err)
	}
	m.meter = provider.Meter(scope)
	var err error
	if m.instruments, m.observables, err = newInstruments(m.meter); err != nil {
		return nil, fmt.Errorf("otellock: NewMetrics: %w", err)
	}
	return m, nil
}

// misuse returns the error of a wrong argument.
func misuse(call string, err error) error {
	return fmt.Errorf("otellock: %s: %w: %w", call, lockmesh.ErrConfig, err)
}

// Observer returns the observer that measures locks and renewals, for [lockmesh.Config].Observer of
// one node. Use [lockmesh.JoinObservers] if there is another observer; behind that of [Spans], the
// exemplars of lockmesh.acquire name the span of the attempt.
func (m *Metrics) Observer() *lockmesh.Observer {
	return &lockmesh.Observer{
		LockGranted: func(ctx context.Context, e lockmesh.LockGranted) {
			m.acquired(ctx, &e.Request, lockmesh.OutcomeGranted, e.Waited)
		},
		LockRefused: func(ctx context.Context, e lockmesh.LockRefused) {
			m.acquired(ctx, &e.Request, e.Outcome, e.Waited)
		},
		RefreshAnswered: func(e lockmesh.RefreshAnswered) {
			m.roundTrip.Record(context.Background(), e.RoundTrip.Seconds(), m.ofVoter(e.Voter))
			if e.Leases > 0 && e.TTL > 0 {
				m.margin.Record(context.Background(), e.Left.Seconds()/e.TTL.Seconds(), m.with())
			}
		},
	}
}

// Watch has the metrics describe a node from now on, the node with the observer of these metrics:
// the node is asked for its [lockmesh.Stats] at each collection. The caller keeps the ownership of
// the mesh, and may close the mesh: its counters stay until Close. A node that joins anew in the
// same process is watched in place of the node before.
//
// The error is [lockmesh.ErrConfig] for a nil mesh, or the provider's error.
func (m *Metrics) Watch(mesh *lockmesh.Mesh) error {
	if mesh == nil {
		return misuse("Metrics.Watch", errors.New(
			"the mesh is nil; call Watch after Join has returned a mesh"))
	}
	_ = mesh.Name() // a mesh that Join hasn't made panics here, in the caller's goroutine
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.registration == nil {
		registration, err := m.meter.RegisterCallback(m.collect, m.observables...)
		if err != nil {
			if registration != nil {
				_ = registration.Unregister() // Watch has failed as a whole
			}
			return fmt.Errorf("otellock: Metrics.Watch: %w", err)
		}
		m.registration = registration
	}
	m.mesh.Store(mesh)
	return nil
}

// Close ends the description of the node that Watch has begun: later collections have the
// histograms alone. The mesh isn't closed, and the observer goes on. Without a Watch before, Close
// does nothing; after Close, Watch may be called again.
func (m *Metrics) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mesh.Store(nil)
	if m.registration == nil {
		return nil
	}
	registration := m.registration
	m.registration = nil
	if err := registration.Unregister(); err != nil {
		return fmt.Errorf("otellock: Metrics.Close: %w", err)
	}
	return nil
}

// acquired measures an attempt. The context has the span for the exemplar; the end of the context
// doesn't matter to the SDK.
func (m *Metrics) acquired(
	ctx context.Context, asked *lockmesh.LockRequested, result lockmesh.Outcome, waited time.Duration,
) {
	o := outcome{op: asked.Op, outcome: result}
	if m.hasPrefixes {
		o.prefix = m.prefixOf(asked.Key)
	}
	m.acquire.Record(ctx, waited.Seconds(), m.ofOutcome(o))
}

// ofOutcome returns the attributes of an attempt, made once.
func (m *Metrics) ofOutcome(o outcome) metric.MeasurementOption {
	m.mu.Lock()
	defer m.mu.Unlock()
	option, ok := m.outcomes[o]
	if !ok {
		of := []attribute.KeyValue{ofOp.String(o.op), ofOutcome.String(string(o.outcome))}
		if m.hasPrefixes {
			of = append(of, ofPrefix.String(o.prefix))
		}
		option = m.with(of...)
		m.outcomes[o] = option
	}
	return option
}

const (
	// maxVoterNames is the maximum number of names of voters in lockmesh.refresh.rtt: room for the
	// largest electorate, replaced three times. With cumulative temporality, the SDK's default, a
	// histogram never forgets an attribute set, and names of pods are random.
	maxVoterNames = 4 * lockmesh.MaxVoters

	// otherVoters stands for the names of all further voters.
	otherVoters = "_OTHER"
)

// ofVoter returns the attributes of a voter's round trips, made once.
func (m *Metrics) ofVoter(name string) metric.MeasurementOption {
	m.mu.Lock()
	defer m.mu.Unlock()
	option, ok := m.voterOptions[name]
	if !ok && len(m.voterOptions) >= maxVoterNames {
		name = otherVoters
		option, ok = m.voterOptions[name]
	}
	if !ok {
		option = m.with(ofVoter.String(name))
		m.voterOptions[name] = option
	}
	return option
}

// with returns the attributes of a measurement, those of all measurements included.
func (m *Metrics) with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(m.attributes, attributes)...))
}
