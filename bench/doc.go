// Package bench holds the page about other lock services against what their examinations expect. The adapters are in etcdpeer and redsyncpeer.
package bench
