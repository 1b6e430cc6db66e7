//go:build unix

package proctest

import (
	"slices"
	"testing"
)

// A holder stopped beyond its deadline finds its lease lost before any use of the lease. Meanwhile
// another client was granted the key.
func TestAStoppedHolderFindsItsLeaseLost(t *testing.T) {
	t.Parallel()
	m := startMesh(t, abc)
	holder, waiter := m.procs["a"], m.procs["b"]
	held := holder.lock("k")
	waiter.queued("k")
	holder.renewed("k", 2)

	holder.halt()
	granted := waiter.awaitEvent("granted", "k")
	notBefore(t, granted, holder.lastDeadline(held.Token), "the lease of the stopped holder had not ended")
	larger(t, granted, held)
	holder.tell("use k") // the first command read after the stop
	holder.resume()

	answer := holder.await("an answer to use", func(l line) bool { return l.Event == "used" || l.Event == "error" && l.Op == "use" })
	if !slices.Contains(answer.Is, "lost") {
		t.Errorf("a holder that was stopped beyond its deadline got %q %v for its check, want the error lost", answer.Event, answer.Is)
	}
	holder.none("used")
	waiter.none("lost")

	// The stopped node is a node like any other again.
	holder.queued("k")
	waiter.tell("unlock k")
	larger(t, holder.awaitEvent("granted", "k"), granted)
}
