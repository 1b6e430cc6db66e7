package vote

import (
	"math"
	"testing"
	"time"
)

func TestTokensOfClocks(t *testing.T) {
	for _, c := range []struct {
		wall Micros
		want Token
	}{
		{-5, 0}, {0, 0}, {1_800_000_000_000_000, 1_800_000_000_000_000}, {Micros(LastClock), LastClock}, {math.MaxInt64, LastClock},
	} {
		if got := TokenAt(c.wall); got != c.want {
			t.Errorf("TokenAt(%d) = %d, want %d", c.wall, got, c.want)
		}
	}
	if y := time.UnixMicro(int64(LastClock)).UTC().Year(); y != 3111 {
		t.Errorf("the last clock shows %d", y)
	}
}

func TestUptoStaysInRange(t *testing.T) {
	for known, want := range map[Token]Token{0: TokenStep, 5: TokenStep + 5, MaxToken - TokenStep: MaxToken, MaxToken: MaxToken} {
		if got := MaxFrom(known); got != want {
			t.Errorf("Upto(%d) = %d, want %d", known, got, want)
		}
	}
}
