package lease

import (
	"strings"
	"testing"
)

// A vote that outlived its session for its delay only, and that its owner takes up again, lives by the new session: it was never extended, so it has no
// end of its own. (Found by seed 700450.)
func TestAVoteThatIsTakenUpAgainHasNoEndBeforeItIsExtended(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens ttl=400ms", "a asks 1:k at=10 length=900ms delay=100ms")
	c.all(t, "pass 450ms", "a states 1:k:length=900ms:delay=100ms ttl=400ms") // the session ends in between
	if v, _ := c.v.Vote("k"); v.Ghost || v.Owner.Node != "a" {
		t.Fatalf("it isn't taken up: %+v", v)
	}
	if said := c.said(t, "pass 150ms"); strings.Contains(said, "lapsed") {
		t.Errorf("it ends with the delay:\n%s", said)
	}
	if v, ok := c.v.Vote("k"); !ok || v.Ghost {
		t.Errorf("it is gone: %+v", v)
	}
}
