package explore

import "slices"

// way is the first path to a state: the last step, and the state (or step) before.
type way struct {
	before int32
	step   Step
}

// search goes breadth first, so that a violation is reached in the fewest steps. For each state
// visited search keeps a hash and a way, and the whole state only until the state is expanded.
type search struct {
	x       *explorer
	met     seen
	ways    []way
	waiting [][]byte // packed, with their places in ways: the states of this depth, and of the next
	next    [][]byte
	first   state
	found   *Violation
	steps   []Step // since the state being expanded
	at      int32  // the place of this state in ways
	thinned int    // how many states of nodes there were at the last effective thin
}

func (x *explorer) search(first state) {
	r := &search{x: x, first: first, ways: make([]way, 1)}
	r.reach(&first)
	var todo []Step
	for depth := 0; len(r.next) > 0; depth++ {
		x.report.Depth = depth
		r.waiting, r.next = r.next, nil
		r.thin()
		for i, packed := range r.waiting {
			r.waiting[i] = nil
			var s state
			r.at = r.unpack(packed, &s)
			if x.over(&s) {
				continue
			}
			todo = x.steps(&s, todo[:0])
			for _, st := range todo {
				after := s
				r.steps = append(r.steps[:0], st)
				if wrong := x.apply(&after, st); wrong != "" || !r.settle(&after) {
					if r.found == nil {
						r.violated(wrong)
					}
					x.report.Violation = r.found
					return
				}
			}
			if x.o.MaxStates > 0 && r.met.n >= x.o.MaxStates || x.o.Stop != nil && i%64 == 0 && x.o.Stop(Progress{r.met.n, depth, len(r.waiting) - i + len(r.next)}) {
				return
			}
		}
	}
	x.report.Exhausted = true
}

// settle executes all prompt steps, and for each prompt step also follows the branch in which the
// step is late. After a violation settle returns false.
func (r *search) settle(s *state) bool {
	for {
		p, ok := r.x.prompt(s)
		if !ok {
			r.reach(s)
			return true
		}
		if s.late > 0 {
			other, late := *s, r.x.delay(s, p)
			r.steps = append(r.steps, late)
			if wrong := r.x.apply(&other, late); wrong != "" {
				r.violated(wrong)
			} else if r.settle(&other) {
				r.steps = r.steps[:len(r.steps)-1]
			}
			if r.found != nil {
				return false
			}
		}
		if wrong := r.x.apply(s, p); wrong != "" {
			r.violated(wrong)
			return false
		}
	}
}

// reach records a new state.
func (r *search) reach(s *state) {
	if !r.met.add(r.x.identity(s)) {
		return
	}
	if r.x.reached != nil {
		r.x.reached(s)
	}
	r.x.report.States = r.met.n
	at := r.at
	for _, st := range r.steps {
		r.ways = append(r.ways, way{at, st})
		at = int32(len(r.ways) - 1)
	}
	p := packer{buf: make([]byte, 0, 96)}
	number(&p, ptr(uint32(at)))
	p.state(s, r.x)
	r.next = append(r.next, p.buf)
}

// thin frees the hosts of all node states that occur in none of the waiting states.
func (r *search) thin() {
	const many = 50_000
	if len(r.x.locals.all)-r.thinned < many {
		return
	}
	marked := make([]bool, len(r.x.locals.all))
	for _, packed := range r.waiting {
		var s state
		r.unpack(packed, &s)
		for _, n := range s.nodes {
			marked[n] = true
		}
	}
	r.x.locals.keep(marked)
	r.thinned = len(marked)
}

func ptr[T any](v T) *T { return &v }

func (r *search) unpack(packed []byte, s *state) (at int32) {
	p := packer{buf: packed, reading: true}
	var n uint32
	number(&p, &n)
	p.state(s, r.x)
	return int32(n)
}

func (r *search) violated(what string) {
	var steps []Step
	for at := r.at; at != 0; at = r.ways[at].before {
		steps = append(steps, r.ways[at].step)
	}
	slices.Reverse(steps)
	r.found = r.x.explain(r.first, append(steps, r.steps...), what)
}

// over reports whether nothing can be granted any more, so that neither exclusion nor the order of
// tokens can be violated.
func (x *explorer) over(s *state) bool {
	for c := range x.clients {
		if s.locks[c] > 0 {
			return false
		}
	}
	return !x.waits(s)
}

// waits reports whether a request waits.
func (x *explorer) waits(s *state) bool {
	for c := range x.clients {
		if slices.ContainsFunc(x.locals.all[s.nodes[x.node(c)]].users[:], user.waits) {
			return true
		}
	}
	return false
}
