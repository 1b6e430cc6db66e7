package otellock

import (
	"context"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockmesh/lockmesh"
)

// voterStates are the states for which lockmesh.voters has a time series.
var voterStates = []lockmesh.VoterState{
	lockmesh.VoterReachable, lockmesh.VoterQuiet, lockmesh.VoterConnecting,
	lockmesh.VoterUnreachable, lockmesh.VoterRefused, lockmesh.VoterBehind, lockmesh.VoterSilent,
}

// collect reads the node's numbers, at each collection of each reader.
func (m *Metrics) collect(_ context.Context, to metric.Observer) error {
	if mesh := m.mesh.Load(); mesh != nil {
		s := mesh.Stats()
		m.observe(to, &s)
	}
	return nil
}

// observe reports the numbers of a node. Of a node that has ended only the counters are known.
func (m *Metrics) observe(to metric.Observer, s *lockmesh.Stats) {
	o := observation{m, to}
	if !s.Closed {
		o.state(s)
	}
	o.counters(s)
}

// observation is one collection.
type observation struct {
	*Metrics
	to metric.Observer
}

// state reports what describes a living node now.
func (o observation) state(s *lockmesh.Stats) {
	e := &s.Electorate
	o.flag(o.ready, e.Ready)
	count := make(map[lockmesh.VoterState]int)
	for i := range e.Voters {
		v := &e.Voters[i]
		count[v.State]++
		o.seconds(o.offset, v.ClockOffset, ofVoter.String(v.Name))
		o.number(o.rate, int(v.ClockRate), ofVoter.String(v.Name))
		o.flag(o.drift, v.Drift != "", ofVoter.String(v.Name))
	}
	for _, state := range voterStates {
		o.number(o.voters, count[state], ofState.String(string(state)))
	}
	o.number(o.needed, e.Majority)
	o.number(o.spare, e.Spare)
	o.number(o.leases, s.Leases)
	o.number(o.waiting, s.Waiting)
	o.seconds(o.oldest, s.OldestWait)
	o.seconds(o.quiet, s.Quiet)
	o.number(o.peers, s.RefusedPeers)
	o.number(o.open, s.Handshakes.Open)
	if e.Dynamic {
		o.count(o.version, e.Version)
		o.seconds(o.joint, s.JointFor)
		o.flag(o.lost, e.Lost != "")
		o.flag(o.trouble, e.Trouble != "")
	}
}

// counters reports what has happened since the start of the node, which may have ended.
func (o observation) counters(s *lockmesh.Stats) {
	for reason, n := range s.LeasesEnded {
		o.count(o.ended, n, ofReason.String(string(reason)))
	}
	for reason, n := range s.Refusals {
		o.count(o.refused, n, ofReason.String(reason))
	}
	d := &s.Dropped
	for what, n := range map[string]uint64{
		"observer_event": d.ObserverEvents, "log_line": d.LogLines, "watch_event": d.WatchEvents,
		"gossip_packet": d.GossipPackets, "gossip_stream": d.GossipStreams,
		"slow_link": d.SlowLinks, "bad_link": d.BadLinks, "stranger": d.Strangers,
	} {
		o.count(o.dropped, n, ofWhat.String(what))
	}
	h := &s.Handshakes
	for reason, n := range map[string]uint64{
		"silent": h.Silent, "unfinished": h.Unfinished,
		"displaced": h.Displaced, "compressed": h.Compressed,
	} {
		o.count(o.failed, n, ofReason.String(reason))
	}
	o.count(o.changes, s.ElectorateChanges)
	o.count(o.panics, s.ObserverPanics)
	o.seconds(o.busy, s.LoopBusy)
	o.count(o.pauses, s.Pauses)
	o.seconds(o.paused, s.PausedFor)
}

func (o observation) number(in metric.Int64Observable, n int, of ...attribute.KeyValue) {
	o.to.ObserveInt64(in, int64(n), o.with(of...))
}

// count reports a number that OpenTelemetry, without unsigned integers, may have to cut off.
func (o observation) count(in metric.Int64Observable, n uint64, of ...attribute.KeyValue) {
	o.to.ObserveInt64(in, int64(min(n, math.MaxInt64)), o.with(of...))
}

func (o observation) flag(in metric.Int64Observable, yes bool, of ...attribute.KeyValue) {
	n := 0
	if yes {
		n = 1
	}
	o.number(in, n, of...)
}

func (o observation) seconds(
	in metric.Float64Observable, d time.Duration, of ...attribute.KeyValue,
) {
	o.to.ObserveFloat64(in, d.Seconds(), o.with(of...))
}
