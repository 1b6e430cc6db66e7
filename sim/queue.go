package sim

// queue holds future events in the order of time and, within a moment, in the order of insertion.
//
// It is a heap with four children per node. Its entries carry no pointers; the events stay in place
// in a slab.
type queue struct {
	heap []slot
	slab []event
	free []int32
	seq  uint64
}

type slot struct {
	at  Moment
	seq uint64
	idx int32
}

func (s slot) before(t slot) bool { return s.at < t.at || s.at == t.at && s.seq < t.seq }

func (q *queue) push(e event) {
	var idx int32
	if n := len(q.free); n > 0 {
		idx = q.free[n-1]
		q.free = q.free[:n-1]
		q.slab[idx] = e
	} else {
		idx = int32(len(q.slab))
		q.slab = append(q.slab, e)
	}
	q.seq++
	s := slot{e.at, q.seq, idx}
	q.heap = append(q.heap, s)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !s.before(q.heap[up]) {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = s
}

// next returns the moment of the first event; never if the queue is empty.
func (q *queue) next() Moment {
	if len(q.heap) == 0 {
		return never
	}
	return q.heap[0].at
}

func (q *queue) pop() event {
	idx := q.heap[0].idx
	e := q.slab[idx]
	q.slab[idx] = event{}
	q.free = append(q.free, idx)
	n := len(q.heap) - 1
	s := q.heap[n]
	q.heap = q.heap[:n]
	if n == 0 {
		return e
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < first+4 && c < n; c++ {
			if q.heap[c].before(q.heap[least]) {
				least = c
			}
		}
		if !q.heap[least].before(s) {
			break
		}
		q.heap[i] = q.heap[least]
		i = least
	}
	q.heap[i] = s
	return e
}
