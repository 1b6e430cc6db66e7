package sim

// lengthCheck demands that no lease lasts longer than agreed.
type lengthCheck struct{ w *World }

// checkLength demands that a lease ends by itself within its length, or within its session's TTL. A
// fixed lease must not be extended.
func (lc *lengthCheck) checkLength(r *Request) {
	fast, most := r.p.clock.fastAt(lc.w.now), r.p.host.ttl
	if r.Ask.Length > 0 {
		most = r.Ask.Length
	}
	switch {
	case r.end > fast.Add(most):
		lc.w.judge.violate(checkLength, "%s's lease of %q is to last for %v, and at most %v is right", r.Node, r.Key, r.end.Sub(fast), most)
	case r.Ask.Fixed && r.Ask.Length > 0 && r.end > r.fixed:
		lc.w.judge.violate(checkLength, "%s's lease of %q isn't to be extended, and lasts %v too long", r.Node, r.Key, r.end.Sub(r.fixed))
	}
}
