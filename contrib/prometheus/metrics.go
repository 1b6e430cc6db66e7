package promlock

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockmesh/lockmesh"
)

// Metrics are the metrics of a node. Metrics is a [prometheus.Collector]; register a Metrics once.
// All methods may be called from any goroutine.
type Metrics struct {
	mesh     atomic.Pointer[lockmesh.Mesh]
	prefixes []string

	acquire   *prometheus.HistogramVec
	margin    prometheus.Histogram
	roundTrip *prometheus.HistogramVec

	mu     sync.Mutex
	voters map[string]bool // with a series of roundTrip
}

var _ prometheus.Collector = (*Metrics)(nil)

// Option changes the result of [New].
type Option func(*Metrics)

// WithPrefixes adds a label "prefix" to lockmesh_acquire_seconds: the longest of the given prefixes
// with which the key begins, or empty for other keys. Each prefix multiplies the number of time
// series by two, three and so on: name few. The prefixes must be valid UTF-8, as all labels of
// Prometheus; New panics otherwise.
func WithPrefixes(prefixes ...string) Option {
	return func(m *Metrics) { m.prefixes = append([]string{""}, prefixes...) }
}

// The bounds of the histograms' buckets, in seconds and as ratios.
var (
	// A free lock takes a round trip: tens of microseconds on a machine, milliseconds between
	// zones. A wait behind other holders lasts up to minutes.
	acquireBuckets = []float64{.0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	// A lease is renewed with about 0.8 of its TTL left, and lost at 0.
	marginBuckets = []float64{.05, .1, .2, .3, .4, .5, .6, .7, .75, .8, .9}
	// A voter slower than a fifth of a TTL delays renewals.
	roundTripBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
)

// New returns the metrics of a node that is yet to join. [Metrics.Observer] belongs into the node's
// configuration, and [Metrics.Watch] is called once the node has joined; until then the metrics
// that describe a state are absent.
//
//	lockmesh_ready                            locks can be granted, as far as this node sees
//	lockmesh_voters{state}                    voters by state
//	lockmesh_voters_needed                    voters needed for a majority
//	lockmesh_voters_spare                     voters that may fail with a majority left
//	lockmesh_acquire_seconds{op,outcome}      from the call to the grant or the error
//	lockmesh_leases                           leases held
//	lockmesh_waiting                          requests not granted yet
//	lockmesh_wait_oldest_seconds              the age of the oldest of them
//	lockmesh_leases_ended_total{reason}       leases that have ended
//	lockmesh_lease_margin_ratio               what was left of the leases as they were renewed
//	lockmesh_refresh_rtt_seconds{voter}       round trips of refreshes
//	lockmesh_voter_clock_offset_seconds{voter}  the voter's wall clock ahead of this node's
//	lockmesh_voter_clock_drift_ppm{voter}     by how much the voter's clock runs faster
//	lockmesh_voter_clock_drift{voter}         1: the voter's clock gains more than is assumed
//	lockmesh_quiet_seconds                    until this node's own votes count
//	lockmesh_electorate_version               of dynamic membership
//	lockmesh_electorate_joint_seconds         for how long the electorate is being changed
//	lockmesh_electorate_changes_total         versions that came
//	lockmesh_electorate_lost                  1: there may never be a majority again
//	lockmesh_electorate_trouble               1: this node can't take part in changes
//	lockmesh_refused_peers                    live nodes with another configuration
//	lockmesh_refused_total{reason}            connections refused
//	lockmesh_dropped_total{what}              things lost where a reader was too slow
//	lockmesh_handshakes_open                  unfinished handshakes
//	lockmesh_handshakes_failed_total{reason}  handshakes that came to nothing
//	lockmesh_observer_panics_total            panics of observers
//	lockmesh_loop_busy_seconds_total          work of the node's loop
//	lockmesh_pauses_total                     times at which the node didn't run
//	lockmesh_paused_seconds_total             the length of all pauses together
func New(options ...Option) *Metrics {
	m := &Metrics{voters: make(map[string]bool)}
	for _, o := range options {
		o(m)
	}
	labels := []string{"op", "outcome"}
	if m.prefixes != nil {
		labels = append(labels, "prefix")
		for _, p := range m.prefixes {
			if strings.ToValidUTF8(p, "") != p {
				panic("promlock: the prefix " + strings.ToValidUTF8(p, "?") + " isn't valid UTF-8, as labels of Prometheus must be")
			}
		}
	}
	m.acquire = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "lockmesh_acquire_seconds", Buckets: acquireBuckets,
		Help: "Time from a call for a lock to its outcome: granted, or the reason of the error.",
	}, labels)
	m.margin = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "lockmesh_lease_margin_ratio", Buckets: marginBuckets,
		Help: "What was left of the leases when a majority had confirmed them again, as a part of their TTL: 0.8 is usual, and at 0 leases are lost.",
	})
	m.roundTrip = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "lockmesh_refresh_rtt_seconds", Buckets: roundTripBuckets,
		Help: "Time from a refresh of the leases to a voter's answer.",
	}, []string{"voter"})
	return m
}

// Observer returns the measuring observer, for [lockmesh.Config].Observer of a single node. Use
// [lockmesh.JoinObservers] if there is another observer.
func (m *Metrics) Observer() *lockmesh.Observer {
	return &lockmesh.Observer{
		LockGranted: func(_ context.Context, e lockmesh.LockGranted) {
			m.observe(&e.Request, lockmesh.OutcomeGranted, e.Waited.Seconds())
		},
		LockRefused: func(_ context.Context, e lockmesh.LockRefused) {
			m.observe(&e.Request, e.Outcome, e.Waited.Seconds())
		},
		RefreshAnswered: func(e lockmesh.RefreshAnswered) {
			m.voterAnswered(e.Voter, e.RoundTrip.Seconds())
			if e.Leases > 0 && e.TTL > 0 {
				m.margin.Observe(e.Left.Seconds() / e.TTL.Seconds())
			}
		},
	}
}

// Watch has the metrics describe the state of a node from now on. The node must have the observer
// of these metrics. The caller keeps the ownership of the mesh, and may close the mesh: the
// counters stay then. A node that joins anew in the same process is watched in place of the node
// before.
func (m *Metrics) Watch(mesh *lockmesh.Mesh) {
	_ = mesh.Name() // a nil mesh panics here, in the caller's goroutine, with a clear text
	m.mesh.Store(mesh)
}

func (m *Metrics) observe(asked *lockmesh.LockRequested, outcome lockmesh.Outcome, seconds float64) {
	labels := []string{asked.Op, string(outcome)}
	if m.prefixes != nil {
		labels = append(labels, m.prefixOf(asked.Key))
	}
	m.acquire.WithLabelValues(labels...).Observe(seconds)
}

// prefixOf returns the longest configured prefix of a key.
func (m *Metrics) prefixOf(key string) (longest string) {
	for _, p := range m.prefixes {
		if len(p) > len(longest) && strings.HasPrefix(key, p) {
			longest = p
		}
	}
	return longest
}

// voterAnswered measures the round trip of a voter.
func (m *Metrics) voterAnswered(voter string, seconds float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.voters[voter] = true
	m.roundTrip.WithLabelValues(voter).Observe(seconds)
}

// forgetVoters drops the series of former voters. Names of pods are random, so the series would
// pile up.
func (m *Metrics) forgetVoters(now []lockmesh.VoterStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := make(map[string]bool, len(now))
	for i := range now {
		is[now[i].Name] = true
	}
	for name := range m.voters {
		if !is[name] {
			delete(m.voters, name)
			m.roundTrip.DeleteLabelValues(name)
		}
	}
}
