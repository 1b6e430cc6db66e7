package sampled

import "testing"

func TestTheFirstCaseIsAlwaysTried(t *testing.T) {
	tried := 0
	for i := range 100 {
		if Case(i, 10) {
			tried++
		}
	}
	want := 10
	switch {
	case Whole:
		want = 100
	case testing.Short():
		want = 3
	}
	if tried != want || !Case(0, 10) || Count(1, 2) != map[bool]int{false: 1, true: 2}[Whole] {
		t.Errorf("%d of 100 cases are tried, want %d; of 1 or 2 %d are", tried, want, Count(1, 2))
	}
}
