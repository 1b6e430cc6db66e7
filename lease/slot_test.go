package lease

import (
	"strings"
	"testing"
)

// Whoever wants one slot learns that a lease has it by being given another one, as soon as the lease is known.
func TestOneThatWantsASlotHearsThatALeaseHasIt(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k permits=2 at=10", "b asks 1:k permits=2 at=5")
	c.all(t, "b yields 1 serial=2 slot=1") // that is a's, who is younger and is asked
	wants(t, c.said(t, "a confirms 1 serial=1 token=2000001 slot=1 won"), "b: promise 1 serial=3 slot=2")
}

// Of a slot that a lease has nothing is to be hoped for soon, so whoever wants it has use for any other: those that have these must give way
// to it as to everyone.
func TestOneThatWantsALeasesSlotContendsForTheOthers(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "c opens", "a asks 1:k permits=2 at=10", "b asks 1:k permits=2 at=20")
	c.all(t, "a confirms 1 serial=1 token=2000001 slot=1 won", "c asks 1:k permits=2 at=15", "b yields 1 serial=2 slot=1")
	wants(t, c.said(t, "a looks 1:k"), "c 1 permit promised permits=2 slot=2", "b 1 permit waiting")
	wants(t, c.said(t, "pass 200ms"), "c: inquire 1 serial=3") // it may reach a minority only
}

// A permit that is waited with for a key that is locked counts as much as any other request.
func TestAHolderIsToldThatAPermitIsWaitedFor(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k at=10", "a confirms 1 serial=1 token=2000001 won")
	wants(t, c.said(t, "b asks 1:k permits=2 at=20"), "a: wanted 1 who=b")
}

// A slot that the key hasn't got is nobody's.
func TestALeaseOfASlotThatItsKeyHasNot(t *testing.T) {
	for _, slot := range []string{"3", "1100", "65535"} {
		c := newTalk()
		c.all(t, "awake 3", "a opens", "b opens", "b asks 1:k permits=2 at=5", "b asks 2:k permits=2 at=6", "a asks 1:k permits=2 at=10")
		c.all(t, "a confirms 1 serial=0 token=2000001 slot="+slot+" won")
		if said := c.said(t, "a looks 1:k"); strings.Contains(said, "slot="+slot) {
			t.Errorf("of two permits one is in slot %s:\n%s", slot, said)
		}
	}
}
