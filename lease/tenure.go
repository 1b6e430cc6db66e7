package lease

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
		e.key.forgetTaken() // a writer may stand behind it now
		v.serve(e.key)
	}
}
