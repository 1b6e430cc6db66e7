package electorate

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Presence is what gossip says of a peer.
type Presence uint8

// What gossip says.
const (
	Unseen Presence = iota // nothing, any more or yet
	Alive
	Failed // it stopped answering
	Left   // it said goodbye
)

// Seen is a peer as gossip sees it. Gossip is a hint: it proposes who is voted in and out, and decides nothing.
type Seen struct {
	Name  vote.NodeID
	Dir   vote.Dir // zero if it has none
	State Presence
}

// other is all that is known of another node.
type other struct {
	name vote.NodeID

	// As gossip sees it.
	seen  Presence
	dir   vote.Dir
	since vote.Instant // when that last changed

	// Its connection, if we have dialed one.
	conn vote.Conn
	up   bool
	life vote.Life

	unanswered int          // polls since it last reported, or the connection came up
	askedAt    vote.Instant // when the first of them was sent

	// Its newest report.
	told   report
	heard  vote.Instant // when that came; when it was first heard of, if none has come
	firm   bool         // a report has come
	writes map[vote.Dir]written
	copied vote.Dir // a directory of its that was put back from an old copy
	badly  vote.Instant
}

// report is what a node says of itself.
type report struct {
	nonce                    uint64
	dir                      vote.Dir
	elected                  uint64 // what is stored there
	top                      vote.Token
	most                     int
	counting                 bool
	founding, stuck, leaving bool
	stuckSince               vote.Instant
	pledge                   []vote.Elector
}

// written is how far a directory is known to have been written, by which life.
type written struct {
	writes uint64
	life   vote.Life
}

func (m *Machine) other(name vote.NodeID) *other {
	o := m.others[name]
	if o == nil {
		o = &other{name: name, heard: m.now.Slow, since: m.now.Slow, writes: make(map[vote.Dir]written)}
		m.others[name] = o
	}
	return o
}

// sorted returns the others by name, so that nothing depends on the order of a map.
func (m *Machine) sorted() []*other {
	all := make([]*other, 0, len(m.others))
	for _, o := range m.others {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *other) int { return cmp.Compare(a.name, b.name) })
	return all
}

// Gossip takes in all that gossip knows.
func (m *Machine) Gossip(now vote.Now, all []Seen) {
	m.begin(now)
	listed := make(map[vote.NodeID]bool, len(all))
	for _, s := range all {
		if s.Name == m.cfg.Self.Node {
			continue
		}
		listed[s.Name] = true
		if o := m.other(s.Name); o.seen != s.State || o.dir != s.Dir {
			o.seen, o.dir, o.since = s.State, s.Dir, m.now.Slow
		}
	}
	for _, o := range m.sorted() {
		if !listed[o.name] && o.seen != Unseen {
			// Gossip forgets those who are long gone. That they are gone is no news.
			if o.seen == Alive {
				o.since = m.now.Slow
			}
			o.seen, o.dir = Unseen, 0
		}
		if !listed[o.name] && !o.up && !m.names(o.name) {
			delete(m.others, o.name)
		}
	}
	m.move()
	m.finish()
}

// names reports whether a node of that name votes or founds.
func (m *Machine) names(n vote.NodeID) bool {
	return slices.ContainsFunc(m.state.Electorate.All(), func(v vote.Elector) bool { return v.Name == n }) || slices.Contains(m.cfg.Founders, n)
}

// Link says that a connection that we dialed is up.
func (m *Machine) Link(now vote.Now, conn vote.Conn, peer vote.SessionID) {
	m.begin(now)
	o := m.other(peer.Node)
	o.conn, o.up, o.life, o.unanswered = conn, true, peer.Life, 0
	m.conns[conn] = &line{}
	m.poll(o)
	m.finish()
}

// Unlink says that a connection is gone, whoever had dialed it.
func (m *Machine) Unlink(now vote.Now, conn vote.Conn) {
	m.begin(now)
	delete(m.conns, conn)
	for _, o := range m.others {
		if o.up && o.conn == conn {
			o.up = false
		}
	}
	m.finish()
}

// poll asks another how it stands.
func (m *Machine) poll(o *other) {
	if !o.up {
		return
	}
	if o.unanswered == 0 {
		o.askedAt = m.now.Slow
	}
	o.unanswered++
	m.send(o.conn, vote.Message{Kind: vote.KindPoll, Nonce: m.nonce, Elected: m.stored.Electorate.Version})
}

// unansweredMost is how many polls go unanswered at least until a connection is given up. One that was sent long ago, before this process was
// stopped for a while, isn't enough.
const unansweredMost = 10

// isDead reports whether a connection's far end is gone, though nobody has said so: a machine that lost its power comes back and knows nothing of
// it. Whoever owns the connections dials again. Without that, a standby that came back so would stand by for ever: no requester speaks with it.
func (m *Machine) isDead(o *other) bool {
	return o.up && o.unanswered >= unansweredMost && m.now.Slow.Sub(o.askedAt) >= m.cfg.MaxTTL
}

// pollEvery is how often voters ask each other how they stand. It is a tenth of what a change takes at least.
func (m *Machine) pollEvery() time.Duration {
	if m.state.Electorate.Version == 0 {
		return min(m.cfg.MaxTTL/10, 100*time.Millisecond) // founders are in a hurry
	}
	return m.cfg.MaxTTL / 10
}

// recent reports whether another has reported of late.
func (m *Machine) recent(o *other) bool {
	return o.up && o.firm && m.now.Slow.Sub(o.heard) <= 3*m.pollEvery()
}

// report answers a poll.
func (m *Machine) report(conn vote.Conn, msg *vote.Message) {
	// A directory that isn't stored yet may never be: others must not pledge with it (found by seed 5772).
	e := &vote.Electing{Dir: m.state.Dir, Most: m.cfg.MaxVoters, Founding: m.founding() && m.everStored, Stuck: m.stuck != "" || !m.Trusted(), Leaving: m.leaving}
	if m.everStored {
		e.Writes = m.stored.Writes
	}
	e.Electorate.Voters = m.stored.Pledge
	m.send(conn, vote.Message{
		Kind: vote.KindReport, Nonce: msg.Nonce, Elected: m.stored.Electorate.Version, Token: m.own.Top, Counting: m.remembers(), Electing: e,
	})
}

// remembers reports whether this node's voter knows of all that it has promised, and what it goes by is on the disk. What a new life finds in its directory
// isn't yet, until it has stored something itself: its last life may have died before that was synced, and a loss of power takes it back.
func (m *Machine) remembers() bool { return m.own.Counting && m.Trusted() && m.everStored }

// reported takes in a report.
func (m *Machine) reported(o *other, msg *vote.Message) {
	e := msg.Electing
	was := o.told
	o.told = report{
		nonce: msg.Nonce, dir: e.Dir, elected: msg.Elected, top: msg.Token, counting: msg.Counting, most: e.Most,
		founding: e.Founding, stuck: e.Stuck, leaving: e.Leaving, pledge: e.Electorate.Voters, stuckSince: m.now.Slow,
	}
	if was.stuck && was.dir == e.Dir {
		o.told.stuckSince = was.stuckSince
	}
	o.heard, o.firm, o.unanswered = m.now.Slow, true, 0
	m.compareWrites(o, e)
}

// compareWrites notices a directory that was put back from an old copy: each start of a node writes its state, so a new life has written more
// often than any before.
func (m *Machine) compareWrites(o *other, e *vote.Electing) {
	if e.Writes == 0 || e.Dir == 0 {
		return
	}
	known, ok := o.writes[e.Dir]
	if ok && known.life != o.life && e.Writes <= known.writes && o.copied != e.Dir {
		o.copied, o.badly = e.Dir, m.now.Slow
		m.alarms = append(m.alarms, "the state directory of "+string(o.name)+" is an old copy, and is not trusted: stop the node, remove its state file, and start it again")
	}
	if o.copied == e.Dir { // however far it counts on from there
		m.send(o.conn, vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonOldCopy, Elected: m.stored.Electorate.Version})
		return
	}
	o.writes[e.Dir] = written{e.Writes, o.life}
}

// Distrust takes another voter's word that this node's directory is an old copy: what it has forgotten may decide something. It
// takes part in nothing any more.
func (m *Machine) Distrust(now vote.Now, from vote.NodeID) {
	m.begin(now)
	if m.distrusted == "" {
		m.distrusted = "the state directory is an old copy: " + string(from) + " knows of later writes to it. Stop this node, remove the state file, and start it again: it is " +
			"voted in anew"
		m.alarms = append(m.alarms, m.distrusted)
	}
}
