// Package lockmeshhttp answers the questions of an orchestrator about a node: whether to restart
// it, whether to send it work, whether the next node may be restarted, and when it may be stopped.
package lockmeshhttp
