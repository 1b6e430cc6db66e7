package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestGossipLearnsLate: a change is known within the limit, and not before a time that differs
// from change to change.
func TestGossipLearnsLate(t *testing.T) {
	const most, step = time.Second, 10 * time.Millisecond
	v, r := new(gossipView), rand.New(rand.NewPCG(1, 2))
	now, late, latest := Moment(0), map[time.Duration]bool{}, time.Duration(0)
	for i := range 20 {
		s := sighting{true, v.news.dir + 1}
		began := now
		for v.learn(s, now, most, r) != s {
			now = now.Add(step)
			if now > began.Add(most+step) {
				t.Fatalf("change %d isn't known within %v", i, most)
			}
		}
		took := time.Duration(now - began)
		late[took], latest = true, max(latest, took)
	}
	if len(late) < 10 || latest < most/2 {
		t.Errorf("20 changes are late by %v, at most %v", late, latest)
	}
	// A host that is back before its absence is known was there all the time.
	there, gone := v.known, sighting{}
	v.learn(gone, now, most, r)
	v.learn(there, now, most, r)
	if got := v.learn(there, now.Add(2*most), most, r); got != there {
		t.Errorf("a short absence: %+v", got)
	}
	if got := v.learn(gone, now, 0, r); got != gone {
		t.Errorf("without lateness: %+v", got)
	}
}
