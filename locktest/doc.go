// Package locktest is a conformance suite for lock services. A small adapter connects any service
// to the suite. The suite knows the promises that a lock service should keep, tries each promise,
// and reports whether the service keeps the promise, breaks the promise, or doesn't offer the
// feature.
//
// An adapter implements [Service], [Client] and [Lock]. Each optional feature, such as fencing
// tokens or shared locks, has a further interface, and the adapter's types implement the interfaces
// of the features that the service has; see [Capability]. The suite examines every implemented
// interface and reports every other as not offered, so nothing is skipped silently.
//
//	func TestMyService(t *testing.T) {
//		locktest.Run(t, myAdapter{cluster}, locktest.Options{TTL: 2 * time.Second})
//	}
//
// [Run] makes each promise a subtest. [Examine] needs no testing package and returns a [Report]. If
// some promises are known to be broken or not offered, list them with the reasons in
// [Options].Expect; then every outcome has to match the list.
//
// The suite waits for conditions and bounds each wait by [Options].Timeout, so a slow machine only
// makes the suite slower. The suite reads the time from package time only, and so can run in a
// bubble of testing/synctest if the service can.
package locktest
