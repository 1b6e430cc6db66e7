package proctest

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// podState is the state of a pod in a rollout.
type podState uint8

const (
	podStarting    podState = iota
	podReady                // the probe has succeeded
	podTerminating          // sent a signal to end; Kubernetes doesn't count the pod any more
	podEnded
)

// podView is a pod as seen by the controller of a Deployment.
type podView struct {
	isNew bool // the pod has the new template
	state podState
}

// strategy is the strategy of a Deployment.
type strategy struct{ replicas, maxSurge, maxUnavailable int }

// next returns the next step of the controller of a Deployment: how many pods of the new template
// to start, and which of the old pods, by index, to end. Terminating pods aren't counted.
func (s strategy) next(pods []podView) (start int, end []int) {
	all, fresh, available := 0, 0, 0
	for _, p := range pods {
		if p.state >= podTerminating {
			continue
		}
		all++
		if p.isNew {
			fresh++
		}
		if p.state == podReady {
			available++
		}
	}
	start = max(min(s.replicas-fresh, s.replicas+s.maxSurge-all), 0)
	// Old pods that aren't ready go first, since they serve no client.
	for _, unready := range []bool{true, false} {
		for i, p := range pods {
			switch {
			case p.isNew || p.state >= podTerminating || (p.state != podReady) != unready:
			case p.state != podReady:
				end = append(end, i)
			case available-1 >= s.replicas-s.maxUnavailable:
				available--
				end = append(end, i)
			}
		}
	}
	return start, end
}

// A rollout keeps to its strategy and comes to its end, in any order of events.
func TestARolloutKeepsToItsStrategy(t *testing.T) {
	for _, s := range []strategy{{3, 1, 0}, {3, 0, 1}, {5, 1, 0}, {5, 2, 1}, {4, 4, 0}} {
		for seed := range uint64(50) {
			t.Run(fmt.Sprintf("%+v seed %d", s, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				var pods []podView
				for range s.replicas {
					pods = append(pods, podView{state: podReady})
				}
				for step := 0; ; step++ {
					if step > 1000 {
						t.Fatalf("no end: %+v", pods)
					}
					start, end := s.next(pods)
					for range start {
						pods = append(pods, podView{isNew: true})
					}
					for _, i := range end {
						pods[i].state = podTerminating
					}
					counted, ready, over := 0, 0, true
					for _, p := range pods {
						if p.state < podTerminating {
							counted++
							over = over && p.isNew && p.state == podReady
						}
						if p.state == podReady {
							ready++
						}
					}
					if counted > s.replicas+s.maxSurge || ready < s.replicas-s.maxUnavailable {
						t.Fatalf("%d pods, %d of them ready: %+v", counted, ready, pods)
					}
					if over && counted == s.replicas {
						return
					}
					i := r.IntN(len(pods))
					if p := &pods[i]; p.state == podStarting || p.state == podTerminating {
						p.state++
					}
				}
			})
		}
	}
}
