// Package proctest has tests only. The tests start real processes of examples/locknode and
// examples/service, kill, stop and restart these processes, and judge the mesh by the output.
//
// Every test waits for conditions in the output, within a bound that only a hang exceeds. Processes
// talk over loopback only, and a test ends only processes that the test has started. A process can
// be stopped and continued on Unix only, so other systems leave out the test that stops processes;
// all other tests run on every system, where "kill -9" is the way to end a process at once.
//
// Times that the design promises (a takeover within a second, a hand-over within 100 ms) are
// reported and don't fail a test: a busy machine takes longer though nothing is wrong.
package proctest
