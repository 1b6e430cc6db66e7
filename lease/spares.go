package lease

// spares keeps the structs of requests and keys that have ended, for the next requests and keys.
type spares struct {
	entries spare[entry]
	extras  spare[extras]
	keys    spare[key]
}

// extra returns the entry's extras for writing.
func (p *spares) extra(e *entry) *extras {
	if e.extras == nil {
		e.extras = p.extras.get()
	}
	return e.extras
}

// discard recycles the memory of an entry without references.
func (p *spares) discard(e *entry) {
	if e.extras != nil {
		p.extras.put(e.extras)
	}
	p.entries.put(e)
}

// copyOf returns a copy of an entry, with extras of its own.
func (p *spares) copyOf(e *entry) *entry {
	g := p.entries.get()
	*g = *e
	if e.extras != nil {
		g.extras = p.extras.get()
		*g.extras = *e.extras
	}
	return g
}

// spareMax is how many free structs of a type are kept for reuse: enough for a steady flow,
// and about 100 KB.
const spareMax = 512

// spare keeps unreferenced structs for reuse. Each struct is zeroed before reuse.
type spare[T any] struct{ free []*T }

func (p *spare[T]) get() *T {
	n := len(p.free)
	if n == 0 {
		return new(T)
	}
	x := p.free[n-1]
	p.free[n-1] = nil
	p.free = p.free[:n-1]
	return x
}

func (p *spare[T]) put(x *T) {
	if len(p.free) < spareMax {
		var zero T
		*x = zero
		p.free = append(p.free, x)
	}
}
