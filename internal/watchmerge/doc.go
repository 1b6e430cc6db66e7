// Package watchmerge makes one ordered stream of events from the reports of several voters about
// the watched keys, and reports a gap where an event may be missing. The merger is a deterministic
// state machine: it reads no clock and does no I/O.
package watchmerge
