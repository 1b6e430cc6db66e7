// Package bench compares the page about other lock services with the expected outcomes of their
// conformance runs. The adapters are in etcdpeer and redsyncpeer.
package bench
