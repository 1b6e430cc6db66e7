package lease

import (
	"container/heap"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// tenure is when a tentative promise has lasted long enough for others to ask for it. A request that reaches only a minority of
// the voters must not pin a key at those.
type tenure struct {
	end    vote.Instant
	serial vote.Serial
	key    *key
}

// tenureHeap holds the ends of tenures, the earliest first. One that no longer means anything is passed over when its time comes.
type tenureHeap []tenure

func (h tenureHeap) Len() int { return len(h) }
func (h tenureHeap) Less(i, j int) bool {
	if h[i].end != h[j].end {
		return h[i].end < h[j].end
	}
	return h[i].serial < h[j].serial
}
func (h tenureHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface's.
func (h *tenureHeap) Push(x any) { *h = append(*h, x.(tenure)) }

// Pop is heap.Interface's.
func (h *tenureHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = tenure{}
	*h = old[:len(old)-1]
	return last
}

// add notes when a tenure ends, once for each vote.
func (h *tenureHeap) add(t tenure) {
	if t.key.vote.tenured {
		return
	}
	t.key.vote.tenured = true
	heap.Push(h, t)
}

func (v *Voter) advanceTenures() {
	for len(v.tenures) > 0 && v.tenures[0].end <= v.now.Slow {
		t := heap.Pop(&v.tenures).(tenure)
		if e := t.key.vote; e != nil && e.serial == t.serial {
			e.tenured = false
			v.contend(t.key)
		}
	}
	if len(v.tenures) > 0 {
		v.at(v.tenures[0].end)
	}
}

// forgive lets the requests of a session wait by their age alone again, now that it reaches a majority.
//
// Passing over is for requests that reach a minority only. Voters would otherwise go on passing over in different rounds, each
// of its own, long after everyone reaches everyone, and no request would have a majority of them at the same time.
func (v *Voter) forgive(s *session) {
	if s.passed == 0 {
		return
	}
	s.passed = 0
	for _, e := range s.sorted() {
		if e.round == 0 {
			continue
		}
		if e.serial != 0 {
			e.round = 0
			continue
		}
		e.key.remove(e)
		e.round = 0
		e.key.insert(e)
		v.contend(e.key)
	}
}
