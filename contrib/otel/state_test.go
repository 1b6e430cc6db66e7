package otellock

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockmesh/lockmesh"
)

// Each number of a node's Stats moves its own time series, and no other, even a number that no mesh
// in memory moves, such as the numbers of handshakes and of a broken disk.
func TestEachNumberMovesItsOwnMetric(t *testing.T) {
	used := make(map[string]bool)
	for name, row := range map[string]struct {
		set  func(s *lockmesh.Stats)
		want float64
	}{
		"ready":         {func(s *lockmesh.Stats) { s.Electorate.Ready = true }, 1},
		"voters_needed": {func(s *lockmesh.Stats) { s.Electorate.Majority = 3 }, 3},
		"voters_spare":  {func(s *lockmesh.Stats) { s.Electorate.Spare = 2 }, 2},
		"leases":        {func(s *lockmesh.Stats) { s.Leases = 5 }, 5},
		"waiting":       {func(s *lockmesh.Stats) { s.Waiting = 6 }, 6},
		"wait_oldest":   {func(s *lockmesh.Stats) { s.OldestWait = 1500 * time.Millisecond }, 1.5},
		"quiet":         {func(s *lockmesh.Stats) { s.Quiet = 2500 * time.Millisecond }, 2.5},

		"leases_ended{lost}":     {func(s *lockmesh.Stats) { s.LeasesEnded[lockmesh.EndLost] = 7 }, 7},
		"leases_ended{unlocked}": {func(s *lockmesh.Stats) { s.LeasesEnded[lockmesh.EndUnlocked] = 8 }, 8},

		"voter.clock_offset{v}":    {func(s *lockmesh.Stats) { s.Electorate.Voters[0].ClockOffset = -time.Second }, -1},
		"voter.clock_drift_ppm{v}": {func(s *lockmesh.Stats) { s.Electorate.Voters[0].ClockRate = -37 }, -37},
		"voter.clock_drift{v}":     {func(s *lockmesh.Stats) { s.Electorate.Voters[0].Drift = "it gains" }, 1},

		"electorate.version": {func(s *lockmesh.Stats) { s.Electorate.Version = 9 }, 9},
		"electorate.joint":   {func(s *lockmesh.Stats) { s.JointFor = time.Minute }, 60},
		"electorate.changes": {func(s *lockmesh.Stats) { s.ElectorateChanges = 10 }, 10},
		"electorate.lost":    {func(s *lockmesh.Stats) { s.Electorate.Lost = "all disks" }, 1},
		"electorate.trouble": {func(s *lockmesh.Stats) { s.Electorate.Trouble = "a full disk" }, 1},

		"refused_peers":     {func(s *lockmesh.Stats) { s.RefusedPeers = 11 }, 11},
		"refused{secret}":   {func(s *lockmesh.Stats) { s.Refusals["secret"] = 12 }, 12},
		"refused{old_copy}": {func(s *lockmesh.Stats) { s.Refusals["old_copy"] = 13 }, 13},

		"dropped{observer_event}": {func(s *lockmesh.Stats) { s.Dropped.ObserverEvents = 14 }, 14},
		"dropped{log_line}":       {func(s *lockmesh.Stats) { s.Dropped.LogLines = 15 }, 15},
		"dropped{watch_event}":    {func(s *lockmesh.Stats) { s.Dropped.WatchEvents = 16 }, 16},
		"dropped{gossip_packet}":  {func(s *lockmesh.Stats) { s.Dropped.GossipPackets = 17 }, 17},
		"dropped{gossip_stream}":  {func(s *lockmesh.Stats) { s.Dropped.GossipStreams = 18 }, 18},
		"dropped{slow_link}":      {func(s *lockmesh.Stats) { s.Dropped.SlowLinks = 19 }, 19},
		"dropped{bad_link}":       {func(s *lockmesh.Stats) { s.Dropped.BadLinks = 20 }, 20},
		"dropped{stranger}":       {func(s *lockmesh.Stats) { s.Dropped.Strangers = 21 }, 21},

		"handshakes.open":               {func(s *lockmesh.Stats) { s.Handshakes.Open = 22 }, 22},
		"handshakes.failed{silent}":     {func(s *lockmesh.Stats) { s.Handshakes.Silent = 23 }, 23},
		"handshakes.failed{unfinished}": {func(s *lockmesh.Stats) { s.Handshakes.Unfinished = 24 }, 24},
		"handshakes.failed{displaced}":  {func(s *lockmesh.Stats) { s.Handshakes.Displaced = 25 }, 25},
		"handshakes.failed{compressed}": {func(s *lockmesh.Stats) { s.Handshakes.Compressed = 26 }, 26},

		"observer.panics": {func(s *lockmesh.Stats) { s.ObserverPanics = 27 }, 27},
		"loop.busy":       {func(s *lockmesh.Stats) { s.LoopBusy = 2 * time.Second }, 2},
		"pauses":          {func(s *lockmesh.Stats) { s.Pauses = 28 }, 28},
		"paused":          {func(s *lockmesh.Stats) { s.PausedFor = 3 * time.Second }, 3},

		"leases_ended{expired}": {func(s *lockmesh.Stats) { s.LeasesEnded[lockmesh.EndExpired] = 1 << 63 }, 1<<63 - 1}, // cut off
	} {
		used[strings.SplitN(name, "{", 2)[0]] = true
		before := observed(t, func(*lockmesh.Stats) {})
		after := observed(t, row.set)
		if got, ok := after[name]; !ok || got != row.want || before[name] == row.want {
			t.Errorf("%s was %v and is %v (there: %v), want %v", name, before[name], got, ok, row.want)
		}
		for other, v := range after {
			if other != name && before[other] != v {
				t.Errorf("as %s moves, %s moves from %v to %v", name, other, before[other], v)
			}
		}
	}
	for _, state := range voterStates {
		name := "voters{" + string(state) + "}"
		got := observed(t, func(s *lockmesh.Stats) { s.Electorate.Voters[0].State = state })
		if got[name] != 1 {
			t.Errorf("with a voter that is %s, %s is %v", state, name, got[name])
		}
		used["voters"] = true
	}
	for name := range observed(t, func(s *lockmesh.Stats) {}) {
		if metric := strings.SplitN(name, "{", 2)[0]; !used[metric] {
			t.Errorf("no row moves %s", metric)
		}
	}
}

// Without dynamic membership there is no electorate to report.
func TestAFixedListHasNoElectorate(t *testing.T) {
	got := observed(t, func(s *lockmesh.Stats) { s.Electorate.Dynamic = false })
	for _, name := range []string{"electorate.version", "electorate.joint", "electorate.lost", "electorate.trouble"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// observed returns the time series of a node with the given numbers, by the name without
// "lockmesh." and the value of the attribute, such as "voters{quiet}".
func observed(t *testing.T, set func(s *lockmesh.Stats)) map[string]float64 {
	t.Helper()
	s := lockmesh.Stats{
		LeasesEnded: map[lockmesh.EndReason]uint64{lockmesh.EndLost: 0, lockmesh.EndUnlocked: 0, lockmesh.EndExpired: 0},
		Refusals:    map[string]uint64{"secret": 0, "old_copy": 0},
	}
	s.Electorate.Dynamic = true
	s.Electorate.Voters = []lockmesh.VoterStatus{{Name: "v"}}
	set(&s)
	reader := sdkmetric.NewManualReader()
	m, err := NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	tell := func(_ context.Context, to metric.Observer) error {
		m.observe(to, &s)
		return nil
	}
	if _, err := m.meter.RegisterCallback(tell, m.observables...); err != nil {
		t.Fatal(err)
	}
	var of metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &of); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, metric := range of.ScopeMetrics[0].Metrics {
		name := strings.TrimPrefix(metric.Name, "lockmesh.")
		switch data := metric.Data.(type) {
		case metricdata.Gauge[int64]:
			add(all, name, data.DataPoints)
		case metricdata.Sum[int64]:
			add(all, name, data.DataPoints)
		case metricdata.Gauge[float64]:
			add(all, name, data.DataPoints)
		case metricdata.Sum[float64]:
			add(all, name, data.DataPoints)
		default:
			t.Fatalf("%s is a %T", name, data)
		}
	}
	return all
}

func add[N int64 | float64](all map[string]float64, name string, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		series := name
		if a := p.Attributes.ToSlice(); len(a) > 0 {
			series += "{" + a[0].Value.AsString() + "}"
		}
		all[series] = float64(p.Value)
	}
}
