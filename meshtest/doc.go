// Package meshtest runs a whole mesh in memory, for the tests of applications that embed lockmesh. The nodes are real ones, down to the words that
// they say; only sockets, gossip and clocks are replaced. A test crashes, restarts and pauses nodes and cuts the network between them, and in
// simulated time it sees what comes of it within milliseconds:
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
// [Run] is for tests in simulated time. Where that can't be, because the test drives something with sockets of its own, [New] starts the same mesh in
// real time.
//
// Hand the nodes to the application as [lockmesh.Mesh]; it can't tell the difference, unless it calls [lockmesh.Join] by itself.
package meshtest
