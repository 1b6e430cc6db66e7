package lease

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A broken invariant of the voter must not end the application, and no vote may count that rests on
// unknown state: the promises made before expire.
func TestAVoterWithABrokenInvariantWithdraws(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "a asks 1:k at=10", "b opens", "b asks 1:k at=20")
	c.all(t, "a asks 3:long at=10 length=400ms")
	c.buf.Reset()
	k := c.v.keys.find("k")
	c.v.promise(k.queue.all()[0], 0, freed{}) // as if grantVotes had overlooked that the key is promised
	if !c.v.quiet.broken || len(k.votes.all()) != 1 || k.votes.all()[0].s.id.Node != "a" {
		t.Fatalf("broken: %v, promised to %v", c.v.quiet.broken, k.votes.all())
	}
	c.all(t, "a refreshes received=1", "b refreshes", "a asks 2:other at=30", "a extends 3 serial=2")
	c.pass(2 * time.Second)
	for _, word := range []string{": promise", ": ack", ": extended"} {
		if strings.Contains(c.buf.String(), word) {
			t.Errorf("a voter that has withdrawn says %q:\n%s", word, c.buf.String())
		}
	}
	if !strings.Contains(c.buf.String(), `ALARM broken invariant, this voter withdraws: key "k" is promised to a/1 and to b/1`) {
		t.Errorf("nobody is told:\n%s", c.buf.String())
	}
	if c.v.Size().Sessions != 0 {
		t.Errorf("sessions are extended: %+v", c.v.Size())
	}
}

func TestARequestThatWaitsOutsideItsQueueIsABrokenInvariant(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "a asks 1:k at=10", "a confirms 1 serial=1 token=2000001 won", "b opens", "b asks 1:k at=20 try", "b asks 2:k at=30")
	k := c.v.keys.find("k")
	waits := k.queue.all()[0]
	k.queue.delete(0)
	if c.v.notifyWaiting(waits) || !c.v.quiet.broken {
		t.Error("the voter goes on")
	}
	if want := `request 2 of session b/1 waits for key "k" outside its queue`; !slices.ContainsFunc(c.v.alarms, func(a string) bool { return strings.Contains(a, want) }) {
		t.Errorf("alarms: %q, want %q", c.v.alarms, want)
	}
}
