package promlock

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockmesh/lockmesh"
)

// voterStates are the states with a series of lockmesh_voters.
var voterStates = []lockmesh.VoterState{
	lockmesh.VoterReachable, lockmesh.VoterQuiet, lockmesh.VoterConnecting, lockmesh.VoterUnreachable, lockmesh.VoterRefused,
	lockmesh.VoterBehind, lockmesh.VoterSilent,
}

// The metrics read from the node at each scrape.
var (
	ready     = describe("ready", "1 if locks can be granted: a majority of the voters answers this node and counts.")
	voters    = describe("voters", "Number of voters by state, as seen by this node; reachable voters count.", "state")
	needed    = describe("voters_needed", "Number of voters needed for a majority.")
	spare     = describe("voters_spare", "Number of counting voters that may fail, whichever they are, with a majority left.")
	leases    = describe("leases", "Number of leases held by this node.")
	waiting   = describe("waiting", "Number of requests for locks not granted yet.")
	oldest    = describe("wait_oldest_seconds", "Age of the oldest request not granted yet.")
	ended     = describe("leases_ended_total", "Number of leases of this node that have ended, by reason; lost is the one to be woken for.", "reason")
	offset    = describe("voter_clock_offset_seconds", "By how much the wall clock of a voter is ahead of this node's. No lock depends on it.", "voter")
	rate      = describe("voter_clock_drift_ppm", "By how much the clock of a voter runs faster than this node's, in parts per million; 0 while unknown.", "voter")
	drift     = describe("voter_clock_drift", "1 if the clock of a voter gains more on this node's than exclusion assumes.", "voter")
	quiet     = describe("quiet_seconds", "Time until this node's own votes count, after its start.")
	version   = describe("electorate_version", "Version of the electorate of dynamic membership.")
	joint     = describe("electorate_joint_seconds", "For how long the electorate is being changed; 0 if it isn't.")
	changes   = describe("electorate_changes_total", "Number of versions of the electorate that have come.")
	lost      = describe("electorate_lost", "1 if there may never be a majority of the voters again without an operator.")
	trouble   = describe("electorate_trouble", "1 if this node can't take part in changes of the electorate.")
	peers     = describe("refused_peers", "Number of live nodes of the mesh with another configuration.")
	refused   = describe("refused_total", "Number of connections refused by this node or by the other side, by reason.", "reason")
	dropped   = describe("dropped_total", "Number of things lost since an application, a network or a node was too slow.", "what")
	open      = describe("handshakes_open", "Number of connections with an unfinished handshake.")
	failed    = describe("handshakes_failed_total", "Number of handshakes that have come to nothing, by reason.", "reason")
	panics    = describe("observer_panics_total", "Number of panics of the application's observers.")
	busy      = describe("loop_busy_seconds_total", "Time for which the loop of the node has worked.")
	pauses    = describe("pauses_total", "Number of times at which the node didn't run for a tenth of a second or longer with work to do.")
	pausedFor = describe("paused_seconds_total", "Length of all pauses together.")
)

var descriptions []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("lockmesh_"+name, help, labels, nil)
	descriptions = append(descriptions, d)
	return d
}

// Describe sends the description of each metric, as [prometheus.Collector] demands.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.acquire.Describe(to)
	m.margin.Describe(to)
	m.roundTrip.Describe(to)
	for _, d := range descriptions {
		to <- d
	}
}

// Collect sends the metrics, as [prometheus.Collector] demands. Collect asks the node for its
// [lockmesh.Stats].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	if mesh := m.mesh.Load(); mesh != nil {
		s := mesh.Stats()
		if !s.Closed {
			m.forgetVoters(s.Electorate.Voters)
			collectState(to, &s)
		}
		collectCounters(to, &s)
	}
	m.acquire.Collect(to)
	m.margin.Collect(to)
	m.roundTrip.Collect(to)
}

// collectState sends the metrics of a living node's present state.
func collectState(to chan<- prometheus.Metric, s *lockmesh.Stats) {
	gauge := gaugeTo(to)
	e := &s.Electorate
	gauge(ready, number(e.Ready))
	count := make(map[lockmesh.VoterState]int)
	for i := range e.Voters {
		v := &e.Voters[i]
		count[v.State]++
		gauge(offset, v.ClockOffset.Seconds(), v.Name)
		gauge(rate, float64(v.ClockRate), v.Name)
		gauge(drift, number(v.Drift != ""), v.Name)
	}
	for _, state := range voterStates {
		gauge(voters, float64(count[state]), string(state))
	}
	gauge(needed, float64(e.Majority))
	gauge(spare, float64(e.Spare))
	gauge(leases, float64(s.Leases))
	gauge(waiting, float64(s.Waiting))
	gauge(oldest, s.OldestWait.Seconds())
	gauge(quiet, s.Quiet.Seconds())
	gauge(peers, float64(s.RefusedPeers))
	gauge(open, float64(s.Handshakes.Open))
	if e.Dynamic {
		gauge(version, float64(e.Version))
		gauge(joint, s.JointFor.Seconds())
		gauge(lost, number(e.Lost != ""))
		gauge(trouble, number(e.Trouble != ""))
	}
}

// collectCounters sends the counts since the start of the node, even after the node's end.
func collectCounters(to chan<- prometheus.Metric, s *lockmesh.Stats) {
	counter := counterTo(to)
	for reason, n := range s.LeasesEnded {
		counter(ended, float64(n), string(reason))
	}
	for reason, n := range s.Refusals {
		counter(refused, float64(n), reason)
	}
	d := &s.Dropped
	for what, n := range map[string]uint64{
		"observer_event": d.ObserverEvents, "log_line": d.LogLines, "watch_event": d.WatchEvents, "gossip_packet": d.GossipPackets,
		"gossip_stream": d.GossipStreams, "slow_link": d.SlowLinks, "bad_link": d.BadLinks, "stranger": d.Strangers,
	} {
		counter(dropped, float64(n), what)
	}
	h := &s.Handshakes
	for reason, n := range map[string]uint64{
		"silent": h.Silent, "unfinished": h.Unfinished, "displaced": h.Displaced, "compressed": h.Compressed,
	} {
		counter(failed, float64(n), reason)
	}
	counter(changes, float64(s.ElectorateChanges))
	counter(panics, float64(s.ObserverPanics))
	counter(busy, s.LoopBusy.Seconds())
	counter(pauses, float64(s.Pauses))
	counter(pausedFor, s.PausedFor.Seconds())
}

func gaugeTo(to chan<- prometheus.Metric) func(d *prometheus.Desc, v float64, labels ...string) {
	return func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
}

func counterTo(to chan<- prometheus.Metric) func(d *prometheus.Desc, v float64, labels ...string) {
	return func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
