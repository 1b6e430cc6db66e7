// Package promlock has the Prometheus metrics of a lockmesh node: the time that locks take and why
// locks fail, the time to spare at the renewal of leases, the counting voters, and the node's
// losses and refusals.
//
//	metrics := promlock.New()
//	prometheus.MustRegister(metrics)
//
//	cfg.Observer = metrics.Observer()
//	mesh, err := lockmesh.Join(ctx, cfg)
//	if err != nil { … }
//	metrics.Watch(mesh)
//
// [New] lists the metrics. docs/monitoring.md of lockmesh has the meaning of each metric, the
// alerts, and advice for each alert.
//
// Label values are few and fixed, but for the names of the current voters. A key is never a label.
// To measure some locks apart, name their prefixes; see [WithPrefixes].
package promlock
