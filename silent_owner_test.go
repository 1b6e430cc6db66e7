package lockmesh

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// A node that holds a key for a length far shorter than its TTL crashes, is cut off or hangs, right
// after the grant or later. One length later the others see the end of the lease, and the key is
// free, and stays free for those who try again and again.
func TestAKeyOfASilentOwnerIsFreeOneLengthLater(t *testing.T) {
	t.Parallel()
	const length = 1500 * time.Millisecond
	for name, silence := range map[string]func(w *wire, d *Mesh){
		"crashed": func(w *wire, d *Mesh) { w.processes[d].Kill(); _ = d.Close() },
		"cut off": func(w *wire, _ *Mesh) { w.stall("d", true) },
		"hanging": func(w *wire, d *Mesh) { w.processes[d].Pause() },
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, time.Second} {
			for _, renewed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %v after the grant, renewed %v", name, after, renewed), func(t *testing.T) {
					t.Parallel()
					inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
						long := func(c *Config) { c.MaxTTL = time.Minute }
						voters := []string{"a", "b", "c"}
						var all []*Mesh
						for _, v := range append(voters, "d") {
							all = append(all, w.join(v, voters, long))
						}
						for _, m := range all {
							if err := m.Ready(testwait.Within(t, 2*time.Minute)); err != nil {
								t.Fatal(err)
							}
						}
						a, d := all[0], all[3]
						watch := must[*Watch](t)(a.Watch(t.Context(), "k"))
						opts := []Option{WithTTL(length)}
						if !renewed {
							opts = append(opts, WithoutRenewal())
						}
						must[*Lease](t)(d.Lock(t.Context(), "k", opts...))
						time.Sleep(after)
						silence(w, d)
						began := time.Now()
						time.Sleep(length + length/30)
						if info := must[Info](t)(a.Inspect(t.Context(), "k")); len(info.Holders) > 0 && !info.Holders[0].Unsure {
							t.Errorf("%v later a sees %v", time.Since(began), info.Holders)
						}
						var told []EventKind
						for more := true; more; {
							synctest.Wait()
							select {
							case e := <-watch.Events():
								told = append(told, e.Kind)
							default:
								more = false
							}
						}
						if after == time.Second && !slices.Equal(told, []EventKind{EventGranted, EventSynced, EventLost}) {
							t.Errorf("%v later the watch has told %v", time.Since(began), told)
						}
						for range 200 { // no instant with a waiting request at each voter
							l, err := a.TryLock(testwait.Within(t, 2*length), "k")
							if err != nil {
								t.Fatalf("%v later: %v", time.Since(began), err)
							}
							unlock(t, l)
							time.Sleep(20 * time.Millisecond)
						}
						if took := time.Since(began); took > length+length/30+5*time.Second {
							t.Errorf("200 leases took %v", took)
						}
						if name == "hanging" {
							w.processes[d].Resume()
						}
						w.stall("d", false)
					})
				})
			}
		}
	}
}
