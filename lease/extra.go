package lease

import (
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// set gives a request a value for others to see. Newer versions replace older ones, so it may come twice.
func (v *Voter) set(s *session, m *vote.Message) {
	e := s.entries[m.Number]
	if e == nil || len(m.Value) > vote.MaxValueLen {
		return
	}
	if x := e.extra(); m.Version > x.version {
		x.version, x.value = m.Version, m.Value
		if e.held {
			v.report(vote.Changed, e)
		}
	}
	v.push(s, vote.Message{Kind: vote.KindNoted, Number: m.Number, Version: m.Version})
}

// urge has whoever holds the key asked to give it back, as long as the request waits.
func (v *Voter) urge(s *session, m *vote.Message) {
	e := s.entries[m.Number]
	if e == nil {
		return
	}
	x := e.extra()
	if !x.urge {
		e.key.urging++
	}
	x.urge, x.why = true, m.Text
	if e.serial == 0 && !e.held {
		v.serve(e.key)
		for _, f := range e.key.votes {
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
	for _, w := range f.key.queue {
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
	if k := v.keys[m.Key]; k != nil {
		for _, e := range k.votes {
			if !e.ghost && e.s.ready() {
				if e.held {
					told++
				}
				v.push(e.s, vote.Message{Kind: vote.KindWanted, Number: e.number, Who: from.Node, Text: m.Text, Urge: true})
			}
		}
	}
	v.send(conn, vote.Message{Kind: vote.KindPassed, Nonce: m.Nonce, Count: told})
}

// look tells who holds a key and who waits for it, or all keys with a prefix, in order of their names.
func (v *Voter) look(conn vote.Conn, m *vote.Message) {
	show := vote.Message{Kind: vote.KindShow, Nonce: m.Nonce}
	names := []vote.Key{m.Key}
	if m.Prefix {
		names = names[:0]
		for name := range v.keys {
			if strings.HasPrefix(string(name), string(m.Key)) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	bytes, shown, all := 0, 0, 0
	add := func(e *entry) {
		s := v.sight(e)
		if len(show.Sights) == vote.MaxSights || bytes+len(s.Value) > vote.MaxSightBytes {
			v.send(conn, show)
			show.Sights, bytes = nil, 0
		}
		bytes += len(s.Value)
		all += len(s.Value)
		shown++
		show.Sights = append(show.Sights, s)
	}
	for _, name := range names {
		k := v.keys[name]
		if k == nil {
			break
		}
		waiting := k.queue[:min(len(k.queue), shownMax)]
		if shown > 0 && (shown+len(k.votes)+len(waiting) > vote.MaxShown || all > vote.MaxShownBytes) {
			show.Gap = true
			break
		}
		for _, e := range k.votes {
			add(e)
		}
		for _, e := range waiting {
			add(e)
		}
		show.Permits = k.permits
	}
	show.End = true
	v.send(conn, show)
}

// shownMax is how many of those who wait are shown. More say nothing that their number wouldn't.
const shownMax = 1024

// sight is what there is to see of an entry.
func (v *Voter) sight(e *entry) vote.Sight {
	s := vote.Sight{
		Key: e.key.name, Owner: e.stamp.Owner, Number: e.number, Mode: e.Mode, Permits: e.Permits, Slot: e.slot, Try: e.Try, Beside: e.Beside,
		Token: e.token, Time: e.stamp.Time,
	}
	if x := e.extras; x != nil {
		s.Version, s.Value = x.version, x.value
	}
	if e.held && e.has != 0 {
		s.Slot = e.has
	}
	switch {
	case e.ghost && e.wonAt == 0:
		s.What, s.For = vote.Resting, v.now.Slow.Sub(e.since)
	case e.ghost && (e.Length == 0 || e.ends <= v.now.Slow):
		s.What, s.For = vote.Resting, v.now.Slow.Sub(e.wonAt)
	case e.held:
		s.What, s.For = vote.Holding, v.now.Slow.Sub(e.wonAt)
	case e.serial != 0:
		s.What, s.For = vote.Promised, v.now.Slow.Sub(e.since)
	default:
		s.What, s.For = vote.Waiting, v.now.Slow.Sub(e.from)
	}
	end := e.until
	if end == 0 {
		end = e.s.deadline
	}
	s.Left = max(end.Sub(v.now.Slow), 0)
	return s
}
