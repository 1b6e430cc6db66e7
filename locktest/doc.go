// Package locktest examines a lock service: any of them, by way of a small adapter. It knows the promises that such a service should
// keep, tries each of them, and reports which are kept, which are broken, and which the service doesn't offer.
//
// An adapter implements [Service], [Client] and [Lock]. What only some services have, such as fencing tokens or shared locks, is a
// further interface each, which the adapter's types implement or don't; see [Capability]. What is implemented is examined, and what
// isn't is reported as not offered: nothing is passed over in silence.
//
//	func TestMyService(t *testing.T) {
//		locktest.Run(t, myAdapter{cluster}, locktest.Options{TTL: 2 * time.Second})
//	}
//
// [Run] makes each promise a subtest. [Examine] needs no testing package and returns a [Report]. Where promises are known to be broken, or are not
// offered, [Options].Expect says so with the reason, and then every outcome has to be as it says.
//
// The examination waits for conditions and bounds each wait by [Options].Patience, so a slow machine makes it slow and nothing else.
// It reads the time from package time only, and so it may run in a bubble of testing/synctest, if the service can.
package locktest
