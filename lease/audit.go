package lease

import (
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Audit compares the voter's account of TryLocks with all TryLocks: those with votes are counted,
// and a TryLock that receives messages has been told of the newest lease that keeps it from the
// key. Tests call Audit after each step; nothing else does, since Audit looks at every key.
func (l *voteLayer) Audit() error {
	for _, k := range l.keys.every {
		if err := k.audit(); err != nil {
			return fmt.Errorf("key %q: %w", k.name, err)
		}
	}
	return nil
}

func (k *key) audit() error {
	voted := 0
	for _, e := range k.votes.all() {
		if e.try && !e.residual {
			voted++
		}
	}
	if voted != int(k.voted) {
		return fmt.Errorf("%d TryLocks have votes, counted: %d", voted, k.voted)
	}
	waiting := slices.Concat(k.queue.all(), k.answeredTries())
	slices.SortFunc(waiting, (*entry).compare)
	barred, writer := 0, false // writer: a request ahead doesn't share the key
	for _, e := range waiting {
		told := e.cold().taken
		if e.cold().barred {
			barred++
		}
		listed := slices.Contains(k.answeredTries(), e)
		if listed != (told != 0) || listed && (!e.try || e.held || e.serial != 0) {
			return fmt.Errorf("request %d of %v was told of lease %d; it is in the wrong list", e.number, e.s.id, told)
		}
		t := k.won(e)
		if t == 0 && writer && e.mode == vote.Shared {
			t = k.won(nil)
		}
		if e.try && !e.held && e.s.isReachable() && t != 0 && told != t {
			return fmt.Errorf("TryLock %d of %v was told of lease %d (0: none), but lease %d keeps it from the key",
				e.number, e.s.id, told, t)
		}
		writer = writer || e.mode != vote.Shared
	}
	if k.answered != nil && (len(k.answered.all) == 0 || k.answered.barred != barred) {
		return fmt.Errorf("%d TryLocks were told, %d of them barred by a writer; counted: %d",
			len(k.answered.all), barred, k.answered.barred)
	}
	return nil
}
