//go:build hunt

package proctest

import (
	"encoding/json"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Beside each rollout a voter is evicted in order, or killed, while another voter gives its seat up
// or while a pod starts. The pods have the time to end of deploy/kubernetes/deployment.yaml. A
// voter that leaves stays until it is replaced, so two of three voters stay throughout: no process
// waits for a free lock for over a second, no lease of a live pod is lost, and no key has two
// holders. The locks of the killed process are free after a MaxTTL.
func TestRolloutsBesideEvictionsAndCrashes(t *testing.T) {
	d := newDeployment(t, buildService(t), strategy{3, 1, 0})
	d.env = []string{"SERVICE_GRACE=55s"}
	d.roll("the start")
	d.startClient("client")
	d.measure = time.Now()
	for _, c := range []struct {
		name   string
		strike func(*pod)
		while  podState
	}{
		{"an eviction while a pod ends", d.evict, podTerminating},
		{"an eviction while a pod starts", d.evict, podStarting},
		{"a crash while a pod ends", d.kill, podTerminating},
		{"a crash while a pod starts", d.kill, podStarting},
	} {
		var victim *pod
		d.meanwhile = func() {
			if victim == nil {
				if victim = d.victim(c.while); victim != nil {
					c.strike(victim)
					d.publish()
				}
			}
		}
		d.replaceAll(c.name)
		if victim == nil {
			t.Fatalf("%s: it never came to that", c.name)
		}
		t.Logf("%s was the victim", victim.name)
	}
	d.meanwhile = nil
	d.judge()
}

// victim returns the last voter of the old template, once a pod is in the given state and the
// PodDisruptionBudget of one pod permits an eviction.
func (d *deployment) victim(while podState) *pod {
	ready, comes := 0, false
	var victim *pod
	for _, p := range d.pods {
		comes = comes || p.view.state == while
		if p.view.state == podReady {
			ready++
			if !p.view.isNew && p.votes() {
				victim = p
			}
		}
	}
	if !comes || ready < d.replicas {
		return nil
	}
	return victim
}

// votes reports whether the pod is a voter of the last electorate in the pod's log.
func (p *pod) votes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range slices.Backward(p.log) {
		var e struct {
			Msg    string
			Voters []string
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Msg == "the electorate has changed" {
			return slices.Contains(e.Voters, p.name)
		}
	}
	return false
}

// evict ends a pod in order. The controller starts another one in its place, now that the pod isn't
// counted any more.
func (d *deployment) evict(p *pod) {
	p.view.state = podTerminating
	p.must(p.cmd.Process.Signal(syscall.SIGTERM))
}

// kill has a pod crash.
func (d *deployment) kill(p *pod) {
	p.view.state, p.killed = podEnded, time.Now()
	p.must(p.cmd.Process.Kill())
}

// free returns how long a key that is always wanted may be free between two instants: for a moment,
// for as long as the machine stood still, and for a maximum TTL if a process was killed that may
// have held the key, or may have waited for it in front of the others.
func (d *deployment) free(from, to time.Time) time.Duration {
	longest := unservedMost + d.machine.stood(from, to)
	if slices.ContainsFunc(d.every, func(p *pod) bool {
		return !p.killed.IsZero() && p.killed.After(from.Add(-d.maxTTL)) && p.killed.Before(to)
	}) {
		longest += d.maxTTL
	}
	return longest
}
