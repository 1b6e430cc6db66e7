package lease

// spares keeps the structs of requests and keys that have ended, for the next requests and keys.
type spares struct {
	entries spare[entry]
	cold    spare[coldFields]
	keys    spare[key]
}

// coldFor returns the entry's cold fields for writing.
func (p *spares) coldFor(e *entry) *coldFields {
	if e.coldFields == nil {
		e.coldFields = p.cold.get()
	}
	return e.coldFields
}

// discard recycles the memory of an entry without references.
func (p *spares) discard(e *entry) {
	if e.coldFields != nil {
		p.cold.put(e.coldFields)
	}
	p.entries.put(e)
}

// copyOf returns a copy of an entry, with cold fields of its own.
func (p *spares) copyOf(e *entry) *entry {
	g := p.entries.get()
	*g = *e
	if e.coldFields != nil {
		g.coldFields = p.cold.get()
		*g.coldFields = *e.coldFields
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
