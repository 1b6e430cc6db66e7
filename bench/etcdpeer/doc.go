// Package etcdpeer adapts etcd to locktest: a server in this process, and the locks of
// client/v3/concurrency.
package etcdpeer
