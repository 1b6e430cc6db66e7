package lockmesh

import (
	"errors"
	"math"
	"strings"
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

// An option without effect is a mistake of the caller.
func TestRevokeTakesAReasonAndNoOtherOption(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		for name, o := range map[string]Option{
			"TTL": WithTTL(time.Second), "without renewal": WithoutRenewal(), "a long lease": options{WithTTL(time.Hour), WithoutRenewal()},
			"least time": WithMinHold(time.Second), "wait": WithWait(time.Second), "no wait": WithWait(0), "value": WithValue(nil), "wish": WithRevoke(),
			"delay": options{WithTTL(time.Second), WithDelay(time.Second)},
		} {
			if err := a.Revoke(t.Context(), "k", o, WithReason("a deploy")); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "WithReason only") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := a.Revoke(t.Context(), "k", WithReason("a deploy"), nil); err != nil {
			t.Error(err)
		}
	})
}

// options are several options as one.
type options []Option

func (all options) apply(w *acquireOptions) {
	for _, o := range all {
		o.apply(w)
	}
}
