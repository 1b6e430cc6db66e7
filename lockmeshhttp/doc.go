// Package lockmeshhttp answers the questions of an orchestrator about a node: whether to restart
// the node, whether to send work to the node, whether the next node may be restarted, and when the
// node may be stopped.
package lockmeshhttp
