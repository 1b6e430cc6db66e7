package lease

import "testing"

// A sync may list an upgrade without the upgrade's reader, which was released meanwhile. The voter
// reports a clash with an older upgrade of another node behind the answer, since no message can
// report the clash earlier.
func TestAClashOfAListedUpgradeIsReportedBehindTheAnswer(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k shared at=10", "b asks 1:k shared at=20", "b asks 2:k at=30 beside=1")
	wants(t, c.said(t, "a syncs 40:k:beside=1"), "a: answer generation=1\n    a: clash 40\n")
}
