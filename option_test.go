package lockmesh

import (
	"math"
	"testing"
	"time"
)

func TestADelayThatIsLongerThanTimeItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.short()
		_, err := a.Lock(t.Context(), "k", WithDelay(math.MaxInt64))
		wantIs(t, err, ErrOption)
		_, err = a.Lock(t.Context(), "k", WithDelay(math.MaxInt64), WithoutRenewal(), WithTTL(time.Second))
		wantIs(t, err, ErrOption)
	})
}
