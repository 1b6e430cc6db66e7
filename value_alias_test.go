package lockmesh

import "testing"

// The result of Inspect belongs to the caller. The voter of the same node answers without a wire in
// between, so the answer must not share the voter's memory.
func TestWhatInspectReturnsIsTheCallersToChange(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a := w.alone()
		lease := must[*Lease](t)(a.Lock(t.Context(), "k", WithValue([]byte("mine"))))
		for range 2 {
			info := must[Info](t)(a.Inspect(t.Context(), "k"))
			if got := string(info.Holders[0].Value); got != "mine" {
				t.Fatalf("the value is %q", got)
			}
			info.Holders[0].Value[0] = 'X'
		}
		unlock(t, lease)
	})
}
