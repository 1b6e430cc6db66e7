package quorum

// Reelect has the tale go by another electorate; to says for each place where the voter has stood so far where it stands now, negative if nowhere.
// Voters that are new begin to tell with a gap, as all do.
//
// Nothing is missed in between: of two electorates that follow upon each other majorities share a voter, so a lease that stands under the one before is
// told by some voter of any majority under this one. If those that have told without a gap are no majority any more, the tale tells of one.
func (t *Tale) Reelect(e Electorate, to []int) {
	t.electorate = e
	t.telling, t.whole, t.asked = t.telling.Moved(to), t.whole.Moved(to), t.asked.Moved(to)
	for _, p := range t.keys {
		for _, list := range [][]*chapter{p.held, p.coming} {
			for _, c := range list {
				c.heard, c.ended = c.heard.Moved(to), c.ended.Moved(to)
			}
		}
		for _, w := range p.waiting {
			w.heard = w.heard.Moved(to)
		}
	}
	t.unless(t.electorate.Decides(t.whole))
}
