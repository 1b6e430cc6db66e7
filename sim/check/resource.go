package check

import "github.com/lockmesh/lockmesh/internal/vote"

// Resource is what a key protects: it accepts a write unless it has seen a larger token than the
// write's. A semaphore stands for as many resources as it has permits. Resource demands that no
// write is accepted out of order and that no rightful holder is refused, whatever the clocks do.
type Resource struct {
	// TokensOnly is for runs beyond the assumptions of exclusion: a holder may be refused.
	TokensOnly bool
	Report     Report

	written map[vote.Slot]*Lease // the lease with the last write accepted
}

// Read is a read that arrives on behalf of a lease; held says whether its holder still believes in
// the lease. Read reports whether the read is accepted.
func (s *Resource) Read(r *Lease, held bool) (accepted bool) {
	last := s.written[0]
	if last == nil || r.Last >= last.Token || r.Era != last.Era {
		return true
	}
	if !s.TokensOnly && held {
		s.Report(RuleResource, "%q refuses to be read by %s, which holds it with token %d, as %s wrote with %d", r.Key, r.Node, r.Token,
			last.Node, last.Token)
	}
	return false
}

// Write is Read for a write.
func (s *Resource) Write(r *Lease, held bool) (accepted bool) {
	last := s.written[r.Slot]
	switch {
	case last == nil || r.Token > last.Token:
		if s.written == nil {
			s.written = make(map[vote.Slot]*Lease)
		}
		s.written[r.Slot] = r
		if last != nil && r.before(last) && r.Era == last.Era {
			s.Report(RuleResource, "%q takes %s's write with token %d after one of %s with %d, who asked when %s had been granted it", r.Key, r.Node,
				r.Token, last.Node, last.Token, r.Node)
		}
		return true
	case r == last, r.Token == last.Token && r.Era != last.Era:
		return true
	case r.Token == last.Token:
		s.Report(RuleResource, "%q takes writes of %s and of %s with the same token %d", r.Key, r.Node, last.Node, r.Token)
		return true
	case last.before(r) && r.Era == last.Era:
		s.Report(RuleResource, "%q refuses a write of %s with token %d after a write of %s with token %d and an older lease", r.Key, r.Node,
			r.Token, last.Node, last.Token)
	case !s.TokensOnly && held && r.Era == last.Era:
		s.Report(RuleResource, "%q refuses a write of %s, which holds it with token %d, as %s wrote with %d", r.Key, r.Node, r.Token,
			last.Node, last.Token)
	}
	return false
}
