package lease

import (
	"strings"
	"testing"
)

// A request for a certain slot gets another slot as soon as the voter knows that a lease has the
// wanted slot.
func TestARequestForASlotLearnsThatALeaseHasIt(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k permits=2 at=10", "b asks 1:k permits=2 at=5")
	// slot 1 is the slot of a, a younger request, so the voter asks a
	c.all(t, "b yields 1 serial=2 slot=1")
	wants(t, c.said(t, "a confirms 1 serial=1 token=2000001 slot=1 won"), "b: promise 1 serial=3 slot=2")
}

// A slot with a lease isn't free soon, so a request for this slot can use any other slot: a
// tentative vote for another slot must yield to this request as to any other.
func TestOneThatWantsALeasesSlotContendsForTheOthers(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "c opens", "a asks 1:k permits=2 at=10", "b asks 1:k permits=2 at=20")
	c.all(t, "a confirms 1 serial=1 token=2000001 slot=1 won", "c asks 1:k permits=2 at=15", "b yields 1 serial=2 slot=1")
	wants(t, c.said(t, "a queries 1:k"), "c 1 permit promised permits=2 slot=2", "b 1 permit waiting")
	// the vote of c may belong to a minority only
	wants(t, c.said(t, "pass 200ms"), "c: inquire 1 serial=3")
}

// The holder of a locked key learns of a waiting request for a permit as of any other request.
func TestAHolderIsToldThatAPermitIsWaitedFor(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k at=10", "a confirms 1 serial=1 token=2000001 won")
	wants(t, c.said(t, "b asks 1:k permits=2 at=20"), "a: contended 1 who=b")
}

// A voter ignores a lease in a slot beyond the permits of the key.
func TestALeaseOfASlotThatItsKeyHasNot(t *testing.T) {
	for _, slot := range []string{"3", "1100", "65535"} {
		c := newTalk()
		c.all(t, "awake 3", "a opens", "b opens", "b asks 1:k permits=2 at=5", "b asks 2:k permits=2 at=6", "a asks 1:k permits=2 at=10")
		c.all(t, "a confirms 1 serial=0 token=2000001 slot="+slot+" won")
		if said := c.said(t, "a queries 1:k"); strings.Contains(said, "slot="+slot) {
			t.Errorf("of two permits one is in slot %s:\n%s", slot, said)
		}
	}
}
