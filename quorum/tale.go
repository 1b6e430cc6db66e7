package quorum

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// ToldKind says what has happened to what is watched.
type ToldKind uint8

// What a Tale tells.
const (
	// ToldGranted : a lease was granted; with Current, it is held.
	ToldGranted ToldKind = iota + 1
	// ToldReleased : a lease was given back.
	ToldReleased
	// ToldLost : a lease ended without having been given back, as far as anybody has told.
	ToldLost
	// ToldWaiting : a request waits.
	ToldWaiting
	// ToldChanged : a lease has another value or mode; after an upgrade it has another token, and Was is the one before.
	ToldChanged
	// ToldGap : what happened from here to the next ToldSynced may have been missed.
	ToldGap
	// ToldFirm : a majority of the voters has said that a lease is held. Of no use to applications: a lease is held before its voters know.
	ToldFirm
	// ToldSynced : all that there is has been told; what follows is told as it happens.
	ToldSynced
)

// Told is one thing that a Tale tells. The token is the first of its lease's run.
type Told struct {
	Kind    ToldKind
	Current bool // it is so, and happened before
	Was     vote.Token
	At      vote.Micros // when it happened, or came to be so, as far as is known
	Sight   vote.Sight
}

// Tale makes one ordered story of what the voters tell of their own accord, each for itself, about what is watched.
//
// It is a deterministic state machine without a clock. It is told what voters say (Hear) and what a majority sees (Show), and says when it wants such a
// look (WantsLook) and what is to be told (Drain).
//
// Why nothing is missed without a gap: a voter remembers what happens there in order, and says so if it has forgotten something that this tale hasn't
// heard. A lease whose node is in touch with a majority M of the voters is told to all of M, and its end is, too. Let W be the voters
// that haven't told of a gap since a look that began after they had started telling. If W is a majority it shares a voter with M, and what that
// one has to say either comes, or a gap comes in its stead, and it leaves W. So whatever isn't told either comes later, or leaves a W
// that is no majority; and that is when the tale tells of a gap. What a single voter has missed is made good by a look, without a word.
//
// The order of a key's leases goes before completeness: a lease of which the first word comes after a newer one was told that stands against it is left
// out, and that, too, is a gap. It happens to one who was cut off, and hears of what happened meanwhile from one voter after the other.
type Tale struct {
	electorate Electorate
	telling    Set // voters that tell, as far as is known
	whole      Set // those that have told without a gap since the picture that the tale rests on
	synced     bool
	lapsed     bool        // a lease was left out
	now        vote.Micros // of the call under way

	keys  map[vote.Key]*plot
	tombs ring // of leases that are over
	waits ring // of requests that were told to wait

	looking bool
	again   bool   // another look is wanted as soon as that one is over
	epoch   uint64 // of the newest look
	asked   Set    // who was telling as it began
	out     []Told
}

// plot is what the tale knows of one key.
type plot struct {
	held    []*chapter    // in order of tokens
	coming  []*chapter    // grants that can't be told before what stands against them is over; in order of tokens
	newest  [4]vote.Token // of the leases that were told, by mode
	waiting map[who]*wait // as far as it is remembered
	graves  int           // tombs that remember the key
}

// who is a request.
type who struct {
	owner  vote.SessionID
	number vote.Number
}

func stampOf(s *vote.Sight) vote.Stamp {
	return vote.Stamp{Time: s.Time, Owner: s.Owner, Number: s.Number}
}

func whose(s *vote.Sight) who { return who{s.Owner, s.Number} }

// wait is one request that waits.
type wait struct {
	sight vote.Sight
	since vote.Micros
	heard Set // voters that have said so
	told  bool
}

// chapter is one lease.
type chapter struct {
	sight vote.Sight
	since vote.Micros
	heard Set    // voters that have said that it is held
	sure  bool   // a majority's look has shown it
	firm  bool   // a majority of the voters has said so, each for itself
	ended Set    // those that have said that it ended there without having been given back
	epoch uint64 // of the look before which the last word came
}

// NewTale returns a tale of which nothing is told yet.
func NewTale(e Electorate) *Tale {
	return &Tale{electorate: e, keys: make(map[vote.Key]*plot), tombs: ring{max: tombsMax}, waits: ring{max: waitsMax}}
}

const (
	// tombsMax is how many leases that are over are remembered, so that a late word doesn't tell of them anew: about as many as a voter
	// remembers events, so that it seldom has a word left that comes later.
	tombsMax = 8192
	// waitsMax is how many waiting requests are remembered. The words of the voters about one come close together.
	waitsMax = 4096
)

// Drain appends what is to be told, and forgets it.
func (t *Tale) Drain(out []Told) []Told {
	out = append(out, t.out...)
	clear(t.out)
	t.out = t.out[:0]
	return out
}

// State returns what is held, and who waits as far as is known, in order of keys and tokens, as ToldGap followed by what there is; with ToldSynced
// at its end, unless the tale has a gap at this moment.
func (t *Tale) State() []Told {
	return t.state([]Told{{Kind: ToldGap}})
}

func (t *Tale) state(out []Told) []Told {
	if !t.synced {
		return out // ToldSynced comes with the state, as soon as it is known
	}
	for _, name := range t.names() {
		p := t.keys[name]
		for _, c := range p.held {
			out = append(out, Told{Kind: ToldGranted, Current: true, At: c.since, Sight: c.sight})
			if c.firm {
				out = append(out, Told{Kind: ToldFirm, Current: true, At: c.since, Sight: c.sight})
			}
		}
		var waiting []*wait
		for _, w := range p.waiting {
			if w.told {
				waiting = append(waiting, w)
			}
		}
		slices.SortFunc(waiting, func(a, b *wait) int { return stampOf(&a.sight).Compare(stampOf(&b.sight)) })
		for _, w := range waiting {
			out = append(out, Told{Kind: ToldWaiting, Current: true, At: w.since, Sight: w.sight})
		}
	}
	return append(out, Told{Kind: ToldSynced})
}

// names returns the keys that are known, in order, so that nothing depends on the order of a map.
func (t *Tale) names() []vote.Key {
	names := make([]vote.Key, 0, len(t.keys))
	for name := range t.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Hear takes in what the voter at a place tells. now is by a wall clock, and only told on.
func (t *Tale) Hear(now vote.Micros, place int, gap bool, sights []vote.Sight) {
	t.now = now
	if gap {
		t.gap(place)
	}
	for i := range sights {
		s := sights[i]
		s.Token = s.Token.First()
		t.word(place, &s)
	}
	t.confess()
}

// confess tells of a gap if a lease was left out.
func (t *Tale) confess() {
	if t.lapsed && t.synced {
		t.out = t.state(append(t.out, Told{Kind: ToldGap, At: t.now}))
	}
	t.lapsed = false
}

// gap notes that a voter has missed something, or tells for the first time.
func (t *Tale) gap(place int) {
	t.telling, t.whole, t.asked = t.telling.With(place), t.whole.Without(place), t.asked.Without(place)
	for _, p := range t.keys {
		for _, c := range slices.Concat(p.held, p.coming) {
			c.heard, c.ended = c.heard.Without(place), c.ended.Without(place) // it may have begun a new life
		}
	}
	t.unless(t.electorate.Decides(t.whole))
}

// unless tells of a gap, unless a majority has told without one; and has a look in any case, at what the others would have told.
func (t *Tale) unless(whole bool) {
	switch {
	case whole:
		t.look()
	case t.synced:
		t.synced = false
		t.out = append(t.out, Told{Kind: ToldGap, At: t.now})
		for _, p := range t.keys {
			p.newest = [4]vote.Token{} // voters that forgot may begin anew below
		}
		fallthrough
	default:
		if t.electorate.Decides(t.telling) {
			t.look()
		}
	}
}

func (t *Tale) look() { t.again = true }

// Relook has the tale want a look, though it lacks nothing as far as it knows.
func (t *Tale) Relook() { t.look() }

// WantsLook reports whether a look at what is watched is to begin now; the tale takes it that it does, and that Show follows.
func (t *Tale) WantsLook() bool {
	if t.looking || !t.again {
		return false
	}
	t.looking, t.again = true, false
	t.epoch++
	t.asked = t.telling
	return true
}

// Show takes in what the look has shown; nil if it has failed.
func (t *Tale) Show(now vote.Micros, shown *Shown) {
	t.now = now
	t.looking = false
	if shown == nil {
		t.again = true
		return
	}
	t.whole |= t.asked
	if !t.electorate.Decides(t.whole) {
		t.again = t.electorate.Decides(t.telling)
		return
	}
	t.compare(shown)
	if !t.synced {
		t.synced, t.lapsed = true, false
		t.out = t.state(t.out)
	}
	t.confess()
}

// compare brings the tale in line with a picture. What was said since the look began is newer than the picture.
func (t *Tale) compare(shown *Shown) {
	seen := make(map[who]bool, len(shown.Sights))
	for i := range shown.Sights {
		if s := &shown.Sights[i]; s.What != vote.Resting { // the lease behind that is over
			seen[whose(s)] = true
		}
	}
	for _, name := range t.names() {
		p := t.keys[name]
		if shown.Cut && name > shown.Last {
			continue
		}
		for _, c := range slices.Concat(p.held, p.coming) {
			// A lease has votes of a majority, one of which would have been seen, as the lease's or as that of a request that waits.
			if c.epoch < t.epoch && !seen[whose(&c.sight)] {
				t.over(name, p, c, ToldLost)
			}
		}
		for id := range p.waiting {
			if !seen[id] {
				delete(p.waiting, id)
			}
		}
		t.flush(name, p)
	}
	for i := range shown.Sights {
		s := shown.Sights[i]
		if s.What == vote.Holding || s.What == vote.Waiting && !s.Try {
			t.word(nobody, &s)
		}
		if p := t.keys[s.Key]; p != nil && i < len(shown.Said) {
			if c := p.find(whose(&s)); c != nil {
				c.heard |= shown.Said[i]
				t.firm(p, c)
			}
		}
	}
}

// nobody is the place of a majority's word, which is no single voter's.
const nobody = -1

// word takes in one word about one request. Its token is the first of its run.
func (t *Tale) word(place int, s *vote.Sight) {
	if t.tombs.has(whose(s)) {
		return
	}
	p := t.keys[s.Key]
	switch s.What {
	case vote.Waiting:
		t.queued(place, p, s)
	case vote.Holding, vote.Changed:
		if p == nil {
			p = &plot{}
			t.keys[s.Key] = p
		}
		t.holding(place, p, s)
		t.flush(s.Key, p)
	case vote.Freed, vote.Ended:
		t.ending(place, p, s)
	}
}

// queued tells of a request that waits, once: as soon as so many voters say so that no majority is left for it.
func (t *Tale) queued(place int, p *plot, s *vote.Sight) {
	id := whose(s)
	var w *wait
	if p != nil {
		if p.find(id) != nil {
			return
		}
		w = p.waiting[id]
	}
	if w == nil {
		if t.waits.has(id) {
			return // it doesn't wait any more
		}
		if p == nil {
			p = &plot{}
			t.keys[s.Key] = p
		}
		if p.waiting == nil {
			p.waiting = make(map[who]*wait)
		}
		w = &wait{sight: *s, since: t.before(s)}
		p.waiting[id] = w
		if old, ok := t.waits.put(s.Key, id); ok {
			t.forgetWait(old)
		}
	}
	if place != nobody {
		w.heard = w.heard.With(place)
		if e := t.electorate; e.Decides(e.All() &^ w.heard) {
			return // a majority may be about to grant it
		}
	}
	if w.told {
		return
	}
	w.told = true
	t.tell(Told{Kind: ToldWaiting, At: w.since, Sight: *s})
}

// before is since when something is so that is said now.
func (t *Tale) before(s *vote.Sight) vote.Micros { return t.now - vote.Micros(s.For.Microseconds()) }

func (t *Tale) forgetWait(old grave) {
	if p := t.keys[old.key]; p != nil {
		delete(p.waiting, old.id)
		t.forget(old.key, p)
	}
}

// holding takes a word that a lease is held.
func (t *Tale) holding(place int, p *plot, s *vote.Sight) {
	id := whose(s)
	delete(p.waiting, id)
	c := p.find(id)
	if c == nil {
		if p.late(s) {
			t.bury(s.Key, p, id)
			t.lapsed = true
			return
		}
		c = &chapter{sight: *s, since: t.before(s)}
		c.sight.What = vote.Holding
		p.coming = insert(p.coming, c)
		c.hear(place, t.epoch)
		return
	}
	c.hear(place, t.epoch)
	t.firm(p, c)
	told := slices.Contains(p.held, c)
	changed := false
	if s.Version > c.sight.Version {
		c.sight.Version, c.sight.Value, changed = s.Version, s.Value, true
	}
	if s.Mode == vote.Shared && c.sight.Mode == vote.Exclusive { // the other way round it would be another request
		c.sight.Mode, changed = vote.Shared, true
		p.newest[vote.Shared] = max(p.newest[vote.Shared], c.sight.Token)
	}
	if changed && told {
		t.tell(Told{Kind: ToldChanged, At: t.now, Sight: c.sight})
	}
}

// firm tells that a majority has said that a lease is held which was told before.
func (t *Tale) firm(p *plot, c *chapter) {
	if !c.firm && t.electorate.Decides(c.heard) && slices.Contains(p.held, c) {
		c.firm = true
		t.tell(Told{Kind: ToldFirm, At: t.now, Sight: c.sight})
	}
}

func (c *chapter) hear(place int, epoch uint64) {
	c.epoch = epoch
	if place == nobody {
		c.sure = true
	} else {
		c.heard, c.ended = c.heard.With(place), c.ended.Without(place)
	}
}

// ending takes a word that a lease is over at one voter.
func (t *Tale) ending(place int, p *plot, s *vote.Sight) {
	id := whose(s)
	var c *chapter
	if p != nil {
		delete(p.waiting, id)
		c = p.find(id)
	}
	if c == nil {
		if s.What == vote.Freed { // whoever has yet to say that it was granted is late
			if p == nil {
				p = &plot{}
				t.keys[s.Key] = p
			}
			t.bury(s.Key, p, id)
		}
		return
	}
	c.epoch = t.epoch
	if s.What == vote.Freed {
		t.over(s.Key, p, c, ToldReleased)
	} else {
		c.ended = c.ended.With(place)
		switch e := t.electorate; {
		case !e.Decides(e.All() &^ c.ended): // no majority can stand behind it any more
			t.over(s.Key, p, c, ToldLost)
		default:
			t.look() // some voter may never say so, since it never knew
		}
	}
	t.flush(s.Key, p)
}

// over tells that a lease has ended. One that is only coming is told first, since nothing that stands against it can be held any more.
func (t *Tale) over(name vote.Key, p *plot, c *chapter, how ToldKind) {
	if i := slices.Index(p.coming, c); i >= 0 {
		for p.coming[0] != c {
			t.grant(name, p, p.coming[0])
		}
		t.grant(name, p, c)
	}
	i := slices.Index(p.held, c)
	if i < 0 {
		return
	}
	p.held = slices.Delete(p.held, i, i+1)
	t.bury(name, p, whose(&c.sight))
	t.tell(Told{Kind: how, At: t.now, Sight: c.sight})
}

// flush tells the grants that are coming, in order of their tokens, as far as nothing stands against them.
//
// What stands against a newer lease is over: one of the voters that granted the newer one knew it. But the first word of the new lease may
// come from a voter that doesn't know that yet; so the end is waited for until a majority has told of the new lease, or some voter has told of
// the old one's end there.
func (t *Tale) flush(name vote.Key, p *plot) {
	for len(p.coming) > 0 {
		c := p.coming[0]
		surely := c.sure || t.electorate.Decides(c.heard)
		for _, h := range p.held {
			if c.against(h) && h.ended == 0 && !surely {
				return
			}
		}
		t.grant(name, p, c)
	}
	t.forget(name, p)
}

// grant tells that a lease is held which was coming, and before that the end of what stands against it.
func (t *Tale) grant(name vote.Key, p *plot, c *chapter) {
	p.coming = slices.DeleteFunc(p.coming, func(o *chapter) bool { return o == c })
	was := vote.Token(0)
	for _, h := range slices.Clone(p.held) {
		switch {
		case c.upgrades(h):
			p.held = slices.DeleteFunc(p.held, func(o *chapter) bool { return o == h })
			t.bury(name, p, whose(&h.sight))
			was = h.sight.Token
		case c.against(h):
			t.over(name, p, h, ToldLost)
		}
	}
	p.held = insert(p.held, c)
	p.newest[c.sight.Mode] = max(p.newest[c.sight.Mode], c.sight.Token)
	if was != 0 {
		t.tell(Told{Kind: ToldChanged, Was: was, At: t.now, Sight: c.sight})
	} else {
		t.tell(Told{Kind: ToldGranted, At: c.since, Sight: c.sight})
	}
	t.firm(p, c)
}

// tell tells what happens, once all that there was has been told.
func (t *Tale) tell(e Told) {
	if t.synced {
		t.out = append(t.out, e)
	}
}

// bury remembers that a lease is over, and forgets what is long over.
func (t *Tale) bury(name vote.Key, p *plot, id who) {
	p.graves++
	if old, ok := t.tombs.put(name, id); ok {
		if q := t.keys[old.key]; q != nil {
			q.graves--
			t.forget(old.key, q)
		}
	}
}

// forget forgets a key of which nothing is known.
func (t *Tale) forget(name vote.Key, p *plot) {
	if len(p.held)+len(p.coming)+len(p.waiting)+p.graves == 0 {
		delete(t.keys, name)
	}
}

func (p *plot) find(id who) *chapter {
	for _, list := range [][]*chapter{p.held, p.coming} {
		for _, c := range list {
			if whose(&c.sight) == id {
				return c
			}
		}
	}
	return nil
}

// late reports whether the first word of a lease comes after a newer one was told that stands against it.
func (p *plot) late(s *vote.Sight) bool {
	for mode, newest := range p.newest {
		if (vote.Mode(mode) != s.Mode || s.Mode == vote.Exclusive) && s.Token < newest {
			return true
		}
	}
	c := &chapter{sight: *s}
	return slices.ContainsFunc(p.held, func(h *chapter) bool { return c.against(h) && s.Token < h.sight.Token })
}

// upgrades reports whether c takes the place of h, both of one node.
func (c *chapter) upgrades(h *chapter) bool {
	return c.sight.Beside != 0 && c.sight.Beside == h.sight.Number && c.sight.Owner == h.sight.Owner && h.sight.Mode == vote.Shared
}

// against reports whether two leases can't be held at one time.
func (c *chapter) against(h *chapter) bool {
	switch {
	case c.upgrades(h):
		return false
	case c.sight.Mode != h.sight.Mode || c.sight.Mode == vote.Exclusive:
		return true
	}
	return c.sight.Mode == vote.Permit && c.sight.Slot == h.sight.Slot
}

func insert(list []*chapter, c *chapter) []*chapter {
	i, _ := slices.BinarySearchFunc(list, c, func(a, b *chapter) int {
		return cmp.Or(cmp.Compare(a.sight.Token, b.sight.Token), cmp.Compare(a.sight.Owner.Node, b.sight.Owner.Node),
			cmp.Compare(a.sight.Number, b.sight.Number))
	})
	return slices.Insert(list, i, c)
}

// grave is a request of a key that is remembered for a while.
type grave struct {
	key vote.Key
	id  who
}

// ring remembers the newest requests that were put into it.
type ring struct {
	max  int
	set  map[who]bool
	list []grave
	next int // where the oldest is, once the list is full
}

func (r *ring) has(id who) bool { return r.set[id] }

// put remembers a request, and returns the one that it forgets instead.
func (r *ring) put(key vote.Key, id who) (old grave, ok bool) {
	if r.set == nil {
		r.set = make(map[who]bool)
	}
	r.set[id] = true
	if len(r.list) < r.max {
		r.list = append(r.list, grave{key, id})
		return grave{}, false
	}
	old, r.list[r.next] = r.list[r.next], grave{key, id}
	r.next = (r.next + 1) % r.max
	delete(r.set, old.id)
	return old, true
}
