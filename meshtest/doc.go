// Package meshtest runs a whole mesh in memory, for the tests of applications that embed lockmesh.
// The nodes are real nodes, down to the messages sent; only sockets, gossip and clocks are
// replaced. A test crashes, restarts and pauses nodes and cuts the network between them, and in
// simulated time observes the effects within milliseconds:
//
//	func TestTakeover(t *testing.T) {
//		meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
//			lease, err := m.Node("a").Lock(t.Context(), "job")
//			if err != nil {
//				t.Fatal(err)
//			}
//			m.Crash("a")
//			next, err := m.Node("b").Lock(t.Context(), "job") // ten seconds later
//			if err != nil {
//				t.Fatal(err)
//			}
//			if next.Token() <= lease.Token() {
//				t.Error("the tokens don't rise")
//			}
//		})
//	}
//
// [Run] is for tests in simulated time. Where simulated time is impossible, because the test also
// uses real sockets, [New] starts the same mesh in real time.
//
// Pass the nodes to the application as [lockmesh.Mesh]; the application can't tell the difference,
// unless it calls [lockmesh.Join] itself.
package meshtest
