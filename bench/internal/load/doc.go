// Package load has the workloads. A workload runs in the process of the measured node, and uses
// only the node's interface.
package load
