package lease

// Keys returns how many keys the voter remembers.
func (v *Voter) Keys() int { return len(v.keys) }
