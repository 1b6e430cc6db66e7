package check

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestHistories checks histories written by hand.
func TestHistories(t *testing.T) {
	var a, b, c Lease
	lock := func(r *Lease, token vote.Token, call, back int64) porcupine.Operation {
		return porcupine.Operation{Input: op{kind: opLock, r: r, token: token}, Call: call, Return: back}
	}
	does := func(k opKind, r *Lease, call, back int64) porcupine.Operation {
		return porcupine.Operation{Input: op{kind: k, r: r}, Call: call, Return: back}
	}
	for _, row := range []struct {
		name string
		ops  []porcupine.Operation
		want bool
	}{
		{"nothing", nil, true},
		{"one after the other", []porcupine.Operation{lock(&a, 1, 0, 1), does(opUnlock, &a, 2, 3), lock(&b, 2, 4, 5)}, true},
		{"a token that doesn't rise", []porcupine.Operation{lock(&a, 2, 0, 1), does(opUnlock, &a, 2, 3), lock(&b, 2, 4, 5)}, false},
		{"two at once", []porcupine.Operation{lock(&a, 1, 0, 1), lock(&b, 2, 2, 3), does(opUnlock, &a, 4, 5)}, false},
		{"as the first gives back", []porcupine.Operation{lock(&a, 1, 0, 1), lock(&b, 2, 2, 5), does(opUnlock, &a, 4, 6)}, true},
		{"after an expiry", []porcupine.Operation{lock(&a, 1, 0, 1), does(opExpire, &a, 2, 9), lock(&b, 2, 3, 9)}, true},
		{"before an expiry", []porcupine.Operation{lock(&a, 1, 0, 1), lock(&b, 2, 2, 3), does(opExpire, &a, 4, 9)}, false},
		{"another's unlock frees nothing", []porcupine.Operation{lock(&a, 1, 0, 1), does(opUnlock, &c, 2, 3), lock(&b, 2, 4, 5)}, false},
		{"taken by a holder", []porcupine.Operation{lock(&a, 1, 0, 1), does(opTaken, &b, 2, 3)}, true},
		{"taken while free", []porcupine.Operation{lock(&a, 1, 0, 1), does(opUnlock, &a, 2, 3), does(opTaken, &b, 4, 5)}, false},
		{"taken by one of unknown outcome", []porcupine.Operation{
			does(opUnknown, &a, 0, 2), does(opExpire, &a, 2, 9), does(opTaken, &b, 4, 5), lock(&c, 1, 6, 9),
		}, true},
		{"one of unknown outcome that must have ended", []porcupine.Operation{
			does(opUnknown, &a, 0, 1), does(opExpire, &a, 2, 3), does(opTaken, &b, 4, 5),
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := porcupine.CheckOperations(fencedLock, row.ops); got != row.want {
				t.Errorf("explained: %v, want %v", got, row.want)
			}
			if got := porcupine.CheckOperations(fencedLock, needed(row.ops)); got != row.want {
				t.Errorf("explained without those of no effect: %v, want %v", got, row.want)
			}
		})
	}
}
