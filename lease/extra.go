package lease

import (
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// set gives a request a value for others to see. Newer versions replace older ones, so it may come twice.
func (v *Voter) set(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil || len(m.Value) > vote.MaxValueLen {
		return
	}
	if x := v.extra(e); m.Version > x.version {
		x.version, x.value = m.Version, m.Value
		if e.held {
			v.report(vote.Changed, e)
		}
	}
	v.push(s, vote.KindNoted, m.Number).Version = m.Version
}

// urge has whoever holds the key asked to give it back, as long as the request waits.
func (v *Voter) urge(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil {
		return
	}
	x := v.extra(e)
	if !x.urge {
		e.key.urging++
	}
	x.urge, x.why = true, m.Text
	if e.serial == 0 && !e.held {
		v.serve(e.key)
		for _, f := range e.key.votes.all() {
			if f.held && !f.ghost {
				v.tellWanted(f, e)
			}
		}
	}
}

// passOnUrge asks a new holder for the key on behalf of whoever waits and urges, wherever in line.
func (v *Voter) passOnUrge(f *entry) {
	if f.key.urging == 0 {
		return
	}
	for _, w := range f.key.queue.all() {
		if w.urges() && !w.held {
			v.tellWanted(f, w)
			return
		}
	}
}

// revoke passes on that somebody wants a key to be given back. Whoever hasn't won yet, as far as this voter knows, hears of it, too: its word may be
// on its way.
func (v *Voter) revoke(conn vote.Conn, from vote.SessionID, m *vote.Message) {
	told := uint64(0)
	if k := v.keys.m[m.Key]; k != nil {
		for _, e := range k.votes.all() {
			if !e.ghost && e.s.ready() {
				if e.held {
					told++
				}
				w := v.push(e.s, vote.KindWanted, e.number)
				w.Who, w.Text, w.Urge = from.Node, m.Text, true
			}
		}
	}
	p := v.say(conn, vote.KindPassed)
	p.Nonce, p.Count = m.Nonce, told
}

// look tells who holds a key and who waits for it, or all keys with a prefix, in order of their names.
func (v *Voter) look(conn vote.Conn, m *vote.Message) {
	var sights []vote.Sight
	gap, permits := false, uint16(0)
	names := []vote.Key{m.Key}
	if m.Prefix {
		names = names[:0]
		for name := range v.keys.m {
			if strings.HasPrefix(string(name), string(m.Key)) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	bytes, shown, all := 0, 0, 0
	add := func(e *entry) {
		s := v.sight(e)
		if len(sights) == vote.MaxSights || bytes+len(s.Value) > vote.MaxSightBytes {
			chunk := v.say(conn, vote.KindShow)
			chunk.Nonce, chunk.Permits, chunk.Sights = m.Nonce, permits, sights
			sights, bytes = nil, 0
		}
		bytes += len(s.Value)
		all += len(s.Value)
		shown++
		sights = append(sights, s)
	}
	for _, name := range names {
		k := v.keys.m[name]
		if k == nil {
			break
		}
		votes, waiting := k.votes.all(), k.queue.all()
		waiting = waiting[:min(len(waiting), shownMax)]
		if shown > 0 && (shown+len(votes)+len(waiting) > vote.MaxShown || all > vote.MaxShownBytes) {
			gap = true
			break
		}
		for _, e := range votes {
			add(e)
		}
		for _, e := range waiting {
			add(e)
		}
		permits = k.permits
	}
	last := v.say(conn, vote.KindShow)
	last.Nonce, last.Permits, last.Sights, last.Gap, last.End = m.Nonce, permits, sights, gap, true
}

// shownMax is how many of those who wait are shown. More say nothing that their number wouldn't.
const shownMax = 1024

// sight is what there is to see of an entry.
func (v *Voter) sight(e *entry) vote.Sight {
	x := e.rare()
	s := vote.Sight{
		Key: e.key.name, Owner: e.s.id, Number: e.number, Mode: e.mode, Permits: e.permits, Slot: e.slot, Try: e.try, Beside: x.beside,
		Token: e.token, Time: e.time, Version: x.version, Value: x.value,
	}
	if e.held && e.has != 0 {
		s.Slot = e.has
	}
	switch {
	case e.ghost && e.wonAt == 0:
		s.What, s.For = vote.Resting, v.now.Slow.Sub(e.since)
	case e.ghost && (x.length == 0 || x.ends <= v.now.Slow):
		s.What, s.For = vote.Resting, v.now.Slow.Sub(e.wonAt)
	case e.held:
		s.What, s.For = vote.Holding, v.now.Slow.Sub(e.wonAt)
	case e.serial != 0:
		s.What, s.For = vote.Promised, v.now.Slow.Sub(e.since)
	default:
		s.What, s.For = vote.Waiting, v.now.Slow.Sub(e.since)
	}
	end := x.until
	if end == 0 {
		end = e.s.deadline
	}
	s.Left = max(end.Sub(v.now.Slow), 0)
	return s
}
