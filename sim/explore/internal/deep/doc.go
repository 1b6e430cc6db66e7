// Package deep copies the state machines of the core; the core has no copying code of its own,
// since no shipped code needs any.
package deep
