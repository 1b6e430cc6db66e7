// Package proctest holds the tests that start real processes of examples/locknode, kill, stop and
// restart them, and judge the mesh by what they print. It has no code of its own.
//
// Every test waits for conditions that it reads from the output, within a bound that only a hang
// exceeds. Processes talk over loopback only, and the tests end only processes that they have
// started themselves. Stopping a process and letting it go on exists on Unix only, so that test is
// left out elsewhere; all others run on every system, where "kill -9" is whatever ends a process at
// once.
//
// Times that the design promises (a takeover within a second, a hand-over within 100 ms) are
// reported and don't fail a test: a busy machine takes longer though nothing is wrong.
package proctest
