package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestAKeyIsFreeOneLengthAfterItsRequesterIsGone crashes a requester, or cuts it off, at each
// moment of a request with a set length, far shorter than the session: on the way of the request,
// of the votes, of their extensions, and of the report of the win. Another node has the key soon
// after the length, whether the lost node asked for a free key or waited for its turn.
func TestAKeyIsFreeOneLengthAfterItsRequesterIsGone(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	const length = 200 * time.Millisecond
	for _, lost := range []struct {
		name string
		do   func(*scene)
	}{
		{"crashed", func(s *scene) { s.Crash("x1") }},
		{"cut off", func(s *scene) { s.Cut("x1", "a", "b", "c") }},
	} {
		for _, fixed := range []bool{false, true} {
			for _, waited := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, fixed %v, waited %v", lost.name, fixed, waited), func(t *testing.T) {
					for step := range 60 {
						s := awake(t, Options{MaxTTL: 5 * sceneTTL, Clients: 2, Seed: uint64(step + 1)})
						var first *Request
						if waited {
							first = s.holds("x2", "k")
						}
						r := s.Ask(Ask{Node: "x1", Key: "k", Length: length, Fixed: fixed})
						if waited {
							s.Run(50 * time.Millisecond)
							s.Release(first)
						}
						s.Run(time.Duration(step) * 100 * time.Microsecond)
						was := r.State
						lost.do(s)
						x2 := s.Lock("x2", "k")
						if took := s.becomes(x2, Granted, 70*sceneTTL); took > length+length/10+soon {
							t.Errorf("step %d: x1's request was %v; the key was free after %v, with a length of %v", step, was, took, length)
						}
						s.Release(x2)
					}
				})
			}
		}
	}
}
