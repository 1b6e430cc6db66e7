package lease

import (
	"strings"
	"testing"
	"time"
)

// A voter of a mesh with a register acts up to the end of its term. Then the voter refuses its
// sessions, and its acknowledgements extend nothing; its promises stand, and the voter still knows
// the promises in its next term.
func TestAVoterActsUpToTheEndOfItsTerm(t *testing.T) {
	f := talkDynamic(t, "0:", true)
	f.elect("1: v0 v1 v2", nil)
	f.hear(f.v.SetTerm(f.now, f.now.Fast.Add(300*time.Millisecond), nil))
	f.counts(true)
	f.says("    a: answer generation=1\n    a: promise 1 serial=1 token=32\n", "a opens", "a asks 1:k at=10")
	f.says("", "pass 299ms")
	f.counts(true)
	f.pass(time.Millisecond)
	f.counts(false)
	if got := f.said(t, "a refreshes received=1"); strings.Contains(got, "ack") {
		t.Errorf("after its term it says %q", got)
	}
	if got := f.said(t, "b opens"); !strings.Contains(got, "refused") {
		t.Errorf("after its term it says %q", got)
	}
	f.hear(f.v.SetTerm(f.now, f.now.Fast.Add(time.Second), nil))
	f.counts(true)
	if got := f.said(t, "b opens", "b asks 1:k at=5"); !strings.Contains(got, "b: answer") || strings.Contains(got, "promise") {
		t.Errorf("in its next term it says %q", got)
	}
	f.hear(f.v.SetTerm(f.now, 0, nil))
	f.counts(false)
}
