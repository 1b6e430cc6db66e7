// Package promlock has the Prometheus metrics of a lockmesh node: how long locks take and why they
// fail, with how much time to spare leases are renewed, which voters count, and what the node lost
// or refused.
//
//	metrics := promlock.New()
//	prometheus.MustRegister(metrics)
//
//	cfg.Observer = metrics.Observer()
//	mesh, err := lockmesh.Join(ctx, cfg)
//	if err != nil { … }
//	metrics.Watch(mesh)
//
// [New] lists the metrics. docs/monitoring.md of lockmesh says what each means, which alerts to
// make of them, and what to do when an alert fires.
//
// Label values are few and fixed, but for the names of the current voters. A key is never a label.
// To measure some locks apart, name their prefixes; see [WithPrefixes].
package promlock
