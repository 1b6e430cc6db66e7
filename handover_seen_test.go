package lockmesh

import (
	"testing"
	"time"
)

// What Inspect says of hand-overs within a node: the node is right, the token is the first caller's
// and at most 31 below the present holder's; and no holder is left after the last Unlock. A lease
// with a value is never handed over, so its own token is shown.
func TestWhatIsSeenOfHandOversWithinANode(t *testing.T) {
	for name, opts := range map[string][]Option{"plain": nil, "with a value": {WithValue([]byte("v"))}} {
		t.Run(name, func(t *testing.T) {
			inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				const callers = 4
				lease := must[*Lease](t)(a.Lock(t.Context(), "k", opts...))
				first := lease.Token()
				granted := make(chan *Lease)
				for range callers {
					go func() {
						l, err := a.Lock(t.Context(), "k", opts...)
						if err != nil {
							t.Error(err)
						}
						granted <- l
					}()
				}
				time.Sleep(time.Second)
				for range callers {
					check(t, lease.Unlock(t.Context()))
					lease = <-granted
					info := must[Info](t)(b.Inspect(t.Context(), "k"))
					if len(info.Holders) != 1 || info.Holders[0].Node != "a" || info.Holders[0].Unsure {
						t.Fatalf("%+v", info)
					}
					shown, want := info.Holders[0].Token, first
					if opts != nil {
						want = lease.Token()
					}
					if shown != want || lease.Token() < shown || lease.Token() > shown+31 {
						t.Errorf("the token %d is shown of the lease %d, the first was %d", shown, lease.Token(), first)
					}
				}
				check(t, lease.Unlock(t.Context()))
				if info := must[Info](t)(b.Inspect(t.Context(), "k")); len(info.Holders) != 0 {
					t.Errorf("after the last Unlock: %+v", info)
				}
			})
		})
	}
}
