package main

// A row is a heading of the dashboard, with the panels below it.
type row struct {
	title  string
	panels []panel
}

// A panel shows some expressions over time.
type panel struct {
	title   string
	text    string // what the panel means, shown at its corner
	unit    string // of Grafana; empty for numbers
	stat    bool   // the last value in large figures, and no graph
	stack   bool
	signed  bool // the values may be negative
	queries []query
	steps   []step // colours of a stat from a value on; the first has no value
}

type query struct{ expr, legend string }

type step struct {
	color string
	from  float64
}

// of selects the series of the instances that the reader has chosen.
const of = `{job=~"$job", instance=~"$instance"}`

var rows = []row{
	{"Can locks be granted?", []panel{
		{title: "Ready", text: "Whether a majority of the voters answers the node and counts.", stat: true,
			queries: []query{{"lockmesh_ready" + of, "{{instance}}"}}, steps: []step{{"red", 0}, {"green", 1}}},
		{title: "Voters to spare", text: "How many voters may fail, whichever they are, with a majority left. At 0 the next failure may stop all locks.", stat: true,
			queries: []query{{"lockmesh_voters_spare" + of, "{{instance}}"}}, steps: []step{{"orange", 0}, {"green", 1}}},
		{title: "Leases lost", text: "Leases of the last day that ended though their work went on, perhaps beside that of the next holder.", stat: true,
			queries: []query{{`increase(lockmesh_leases_ended_total{reason="lost", job=~"$job", instance=~"$instance"}[1d])`, "{{instance}}"}}, steps: []step{{"green", 0}, {"red", 1}}},
		{title: "Voters by state", text: "As the nodes see them, on average.", stack: true,
			queries: []query{{"avg by (state) (lockmesh_voters" + of + ")", "{{state}}"}}},
	}},
	{"Locks", []panel{
		{title: "Outcomes of requests", text: "Calls of Lock and its relatives, by how they ended.", unit: "reqps", stack: true,
			queries: []query{{"sum by (outcome) (rate(lockmesh_acquire_seconds_count" + of + "[$__rate_interval]))", "{{outcome}}"}}},
		{title: "Time to a grant", text: "From the call to the grant, with the wait behind other holders.", unit: "s",
			queries: []query{
				{`histogram_quantile(0.5, sum by (le) (rate(lockmesh_acquire_seconds_bucket{outcome="granted", job=~"$job", instance=~"$instance"}[$__rate_interval])))`, "half"},
				{`histogram_quantile(0.99, sum by (le) (rate(lockmesh_acquire_seconds_bucket{outcome="granted", job=~"$job", instance=~"$instance"}[$__rate_interval])))`, "99 of 100"},
			}},
		{title: "Waiting requests", queries: []query{{"lockmesh_waiting" + of, "{{instance}}"}}},
		{title: "Oldest waiting request", unit: "s", queries: []query{{"lockmesh_wait_oldest_seconds" + of, "{{instance}}"}}},
		{title: "Held leases", queries: []query{{"lockmesh_leases" + of, "{{instance}}"}}},
		{title: "Ends of leases", text: "By reason; \"lost\" is the bad one.", unit: "ops",
			queries: []query{{"sum by (reason) (rate(lockmesh_leases_ended_total" + of + "[$__rate_interval]))", "{{reason}}"}}},
	}},
	{"Are leases safe?", []panel{
		{title: "Lease margin", text: "What was left of the leases when a majority had confirmed them again, as a part of their TTL. About 0.8 is usual. At 0 leases are lost.", unit: "percentunit",
			queries: []query{
				{"histogram_quantile(0.5, sum by (le) (rate(lockmesh_lease_margin_ratio_bucket" + of + "[$__rate_interval])))", "half"},
				{"histogram_quantile(0.01, sum by (le) (rate(lockmesh_lease_margin_ratio_bucket" + of + "[$__rate_interval])))", "the worst of 100"},
			}},
		{title: "Round trips of refreshes", text: "99 of 100 are quicker.", unit: "s",
			queries: []query{{"histogram_quantile(0.99, sum by (le, voter) (rate(lockmesh_refresh_rtt_seconds_bucket" + of + "[$__rate_interval])))", "{{voter}}"}}},
		{title: "Pauses", text: "The part of the time for which the node didn't run though it had work to do.", unit: "percentunit",
			queries: []query{{"rate(lockmesh_paused_seconds_total" + of + "[$__rate_interval])", "{{instance}}"}}},
		{title: "Clock drift", text: "1: a voter's clock gains more on the node's than exclusion assumes.",
			queries: []query{{"lockmesh_voter_clock_drift" + of, "{{voter}} at {{instance}}"}}},
		{title: "Rate of clocks", text: "By how many millionths a voter's clock runs faster than the node's.", signed: true,
			queries: []query{{"lockmesh_voter_clock_drift_ppm" + of, "{{voter}} at {{instance}}"}}},
		{title: "Offset of wall clocks", text: "Of a voter, ahead of the node. No lock depends on it.", unit: "s", signed: true,
			queries: []query{{"lockmesh_voter_clock_offset_seconds" + of, "{{voter}} at {{instance}}"}}},
		{title: "Quiet time left", text: "Until a node that has just started counts as a voter.", unit: "s",
			queries: []query{{"lockmesh_quiet_seconds" + of, "{{instance}}"}}},
	}},
	{"Dynamic membership", []panel{
		{title: "Version of the electorate", queries: []query{{"lockmesh_electorate_version" + of, "{{instance}}"}}},
		{title: "Under change for", text: "A change takes little more than one MaxTTL.", unit: "s",
			queries: []query{{"lockmesh_electorate_joint_seconds" + of, "{{instance}}"}}},
		{title: "Changes", text: "Versions that came in an hour.",
			queries: []query{{"increase(lockmesh_electorate_changes_total" + of + "[1h])", "{{instance}}"}}},
		{title: "Lost, or in trouble", text: "1: there may never be a majority again without an operator; or the node can't take part in changes.",
			queries: []query{{"lockmesh_electorate_lost" + of, "lost at {{instance}}"}, {"lockmesh_electorate_trouble" + of, "trouble at {{instance}}"}}},
	}},
	{"The node and its neighbours", []panel{
		{title: "Work of the loop", text: "The part of the time for which the node's loop works.", unit: "percentunit",
			queries: []query{{"rate(lockmesh_loop_busy_seconds_total" + of + "[$__rate_interval])", "{{instance}}"}}},
		{title: "Dropped", text: "What was lost since an application, a network or a node was too slow.", unit: "ops",
			queries: []query{{"sum by (what) (rate(lockmesh_dropped_total" + of + "[$__rate_interval]))", "{{what}}"}, {"sum(rate(lockmesh_observer_panics_total" + of + "[$__rate_interval]))", "observer's panics"}}},
		{title: "Refusals", text: "Connections refused, by reason, and live nodes with another configuration.",
			queries: []query{{"sum by (reason) (increase(lockmesh_refused_total" + of + "[$__rate_interval]))", "{{reason}}"}, {"max(lockmesh_refused_peers" + of + ")", "nodes"}}},
		{title: "Handshakes", text: "That came to nothing, and unfinished ones.",
			queries: []query{{"sum by (reason) (increase(lockmesh_handshakes_failed_total" + of + "[$__rate_interval]))", "{{reason}}"}, {"sum(lockmesh_handshakes_open" + of + ")", "open"}}},
	}},
}

// object is an object of JSON.
type object = map[string]any

// Sizes in the dashboard's grid, which is 24 wide.
const (
	gridWidth   = 24
	panelHeight = 7
	statHeight  = 4
)

// Dashboard returns the dashboard in Grafana's model.
func Dashboard() object {
	var panels []object
	y, id := 0, 0
	next := func() int { id++; return id }
	for _, r := range rows {
		panels = append(panels, object{"id": next(), "type": "row", "title": r.title, "collapsed": false, "panels": []any{}, "gridPos": grid(0, y, gridWidth, 1)})
		y++
		x, high := 0, 0
		for _, p := range r.panels {
			width, height := 8, panelHeight
			if p.stat {
				height = statHeight
			}
			if x+width > gridWidth {
				x, y, high = 0, y+high, 0
			}
			panels = append(panels, p.object(next(), grid(x, y, width, height)))
			x, high = x+width, max(high, height)
		}
		y += high
	}
	return object{
		"title": "lockmesh", "uid": "lockmesh", "tags": []string{"lockmesh"}, "schemaVersion": 39, "editable": true,
		"time": object{"from": "now-1h", "to": "now"}, "refresh": "10s", "graphTooltip": 1, "panels": panels,
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			variable("job", "Job", `label_values(lockmesh_ready, job)`),
			variable("instance", "Instance", `label_values(lockmesh_ready{job=~"$job"}, instance)`),
		}},
	}
}

func grid(x, y, w, h int) object { return object{"x": x, "y": y, "w": w, "h": h} }

// source is the data source that the reader has chosen.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// variable is a choice above the dashboard.
func variable(name, label, values string) object {
	return object{
		"name": name, "label": label, "type": "query", "datasource": source, "query": object{"query": values, "refId": name},
		"definition": values, "includeAll": true, "multi": true, "refresh": 2, "sort": 1, "current": object{"text": "All", "value": "$__all"},
	}
}

func (p *panel) object(id int, at object) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend})
	}
	defaults := object{"unit": p.unit, "custom": object{}}
	o := object{"id": id, "type": "timeseries", "title": p.title, "description": p.text, "datasource": source, "gridPos": at, "targets": targets}
	if p.stat {
		o["type"] = "stat"
		o["options"] = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "background", "graphMode": "none"}
		var steps []object
		for i, s := range p.steps {
			v := any(s.from)
			if i == 0 {
				v = nil
			}
			steps = append(steps, object{"color": s.color, "value": v})
		}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
	} else {
		custom := object{"fillOpacity": 10, "showPoints": "never"}
		if p.stack {
			custom["stacking"] = object{"mode": "normal"}
			custom["fillOpacity"] = 40
		}
		defaults["custom"] = custom
		if !p.signed {
			defaults["min"] = 0
		}
		o["options"] = object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi"}}
	}
	o["fieldConfig"] = object{"defaults": defaults, "overrides": []any{}}
	return o
}
