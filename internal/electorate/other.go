package electorate

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Seen is gossip's view of a peer. Gossip is a hint: gossip proposes nodes to vote in and out, and
// decides nothing.
type Seen struct {
	Name  vote.NodeID
	Dir   vote.Dir // zero if the peer has none
	State vote.Presence
}

// other is everything known of another node.
type other struct {
	name vote.NodeID

	// As gossip sees the node.
	seen  vote.Presence
	dir   vote.Dir
	since vote.Instant // when seen or dir last changed
	// firstSeen is when gossip first showed dir: gossip that is wrong now and then about a process
	// doesn't make it another process.
	firstSeen vote.Instant

	// The connection to the node, if this node has dialed one.
	conn        vote.Conn
	up          bool
	incarnation vote.Incarnation

	// A report has come over this connection; an older report may be of an earlier incarnation.
	spoke      bool
	unanswered int          // polls since the last report, or since the connection came up
	askedAt    vote.Instant // when the first unanswered poll was sent

	// The newest report of the node.
	report report
	// reportedAt is when the report came; before the first report, when the node was first heard
	// of.
	reportedAt   vote.Instant
	confirmed    bool         // a report has come
	lagging      bool         // by the report, the node hasn't stored the electorate stored here
	laggingSince vote.Instant // since when lagging has its value
	uncounted    uncounted
	writes       map[vote.Dir]written
	copied       vote.Dir // a directory of the node, restored from an old copy
	copiedAt     vote.Instant
	// ignoredUntil is until when the node's ballots are ignored, since the node proposed a wrong
	// minimum token.
	ignoredUntil vote.Instant
	// warnedAt is when an operator was last warned of the node's tokens; zero for never.
	warnedAt vote.Instant
}

// report is a node's report about itself.
type report struct {
	nonce                    uint64
	dir                      vote.Dir
	version                  uint64 // the stored version
	top                      vote.Token
	most                     int
	counting                 bool
	founding, stuck, leaving bool
	stuckSince, leavingSince vote.Instant // meaningful while the flag is set
	pledge                   []vote.Elector
	pledgeMaxVoters          int
	maxTTL, pledgeMaxTTL     time.Duration
	// contacts are the nodes in direct contact, itself included; empty if unreported.
	contacts []vote.Elector
}

// uncounted is what is known of a node's votes since they counted.
type uncounted struct {
	since  vote.Instant     // of the first report that the votes don't count
	starts int              // the incarnations that have reported so since
	last   vote.Incarnation // the newest of these
	lastAt vote.Instant     // of its first report
}

// note takes in a report of an incarnation of a directory: the same as before, or another. Starts
// longer apart than loop are no loop: the count begins anew.
func (u *uncounted) note(now vote.Instant, from vote.Incarnation, counting, another bool, loop time.Duration) {
	switch {
	case counting:
		*u = uncounted{}
		return
	case u.starts == 0 || another || u.last != from && now.Sub(u.lastAt) >= loop:
		*u = uncounted{since: now}
	}
	if u.starts == 0 || u.last != from {
		u.starts, u.last, u.lastAt = u.starts+1, from, now
	}
}

// written is the highest known write count of a directory, and the incarnation that reported the
// count.
type written struct {
	writes      uint64
	incarnation vote.Incarnation
}

func (m *contactLayer) other(name vote.NodeID) *other {
	o := m.others[name]
	if o == nil {
		o = &other{name: name, reportedAt: m.now.Slow, since: m.now.Slow, writes: make(map[vote.Dir]written)}
		m.others[name] = o
		at, _ := slices.BinarySearchFunc(m.order, name, func(o *other, n vote.NodeID) int { return cmp.Compare(o.name, n) })
		m.order = slices.Insert(slices.Clip(m.order), at, o)
	}
	return o
}

// forget drops the knowledge about a node.
func (m *contactLayer) forget(o *other) {
	delete(m.others, o.name)
	m.order = slices.DeleteFunc(slices.Clone(m.order), func(p *other) bool { return p == o })
}

// sorted returns the others by name, so that nothing depends on the order of a map. The list never
// changes: when a node comes or goes, the machine makes another.
func (m *contactLayer) sorted() []*other { return m.order }

// Gossip takes in the full list of peers known to gossip.
func (m *Machine) Gossip(now vote.Now, all []Seen) {
	m.begin(now)
	listed := make(map[vote.NodeID]bool, len(all))
	for _, s := range all {
		if s.Name == m.cfg.Self.Node {
			continue
		}
		listed[s.Name] = true
		o := m.other(s.Name)
		if o.seen == vote.Alive {
			m.noteReachable(vote.Elector{Name: o.name, Dir: o.dir}, false) // alive up to now
		}
		if o.firstSeen == 0 || o.dir != s.Dir {
			o.firstSeen = m.now.Slow
		}
		if o.seen != s.State || o.dir != s.Dir {
			o.seen, o.dir, o.since = s.State, s.Dir, m.now.Slow
		}
		if o.seen == vote.Alive {
			m.noteReachable(vote.Elector{Name: o.name, Dir: o.dir}, false)
		}
	}
	for _, o := range m.sorted() {
		if !listed[o.name] && o.seen != vote.Unseen {
			// Gossip forgets peers long after they are gone. Their absence is no news.
			if o.seen == vote.Alive {
				o.since = m.now.Slow
				m.noteReachable(vote.Elector{Name: o.name, Dir: o.dir}, false)
			}
			o.seen, o.dir = vote.Unseen, 0
		}
		if !listed[o.name] && !o.up && !m.names(o.name) {
			m.forget(o)
		}
	}
	m.tieAll()
	m.move()
	m.finish()
}

// names reports whether a voter or a founder has this name.
func (m *stateLayer) names(n vote.NodeID) bool {
	return m.state.Electorate.Names(n) || slices.Contains(m.cfg.Founders, n)
}

// Link reports that a connection dialed by this node is up.
func (m *contactLayer) Link(now vote.Now, conn vote.Conn, peer vote.SessionID) {
	m.begin(now)
	o := m.other(peer.Node)
	o.conn, o.up, o.incarnation, o.unanswered, o.spoke = conn, true, peer.Incarnation, 0, false
	m.conns[conn] = &connState{}
	m.poll(o)
}

// Unlink reports that a connection is gone, whichever side dialed.
func (m *contactLayer) Unlink(now vote.Now, conn vote.Conn) {
	m.begin(now)
	delete(m.conns, conn)
	for _, o := range m.others {
		if o.up && o.conn == conn {
			o.up = false
		}
	}
}

// poll asks another node for a report.
func (m *contactLayer) poll(o *other) {
	if !o.up {
		return
	}
	if o.unanswered == 0 {
		o.askedAt = m.now.Slow
	}
	o.unanswered++
	m.send(o.conn, vote.Message{Kind: vote.KindPoll, Nonce: m.nonce, Epoch: m.stored.Electorate.Version})
}

// unansweredMost is the least number of unanswered polls before a connection is given up. A single
// poll sent long ago, before this process was suspended for a while, isn't enough.
const unansweredMost = 10

// isDead reports whether the far end of a connection is gone without notice: a machine that lost
// power comes back and knows nothing of the connection. The owner of the connections dials again.
// Otherwise a standby that comes back in this way would be on standby without end, since no
// requester sends to a standby.
func (m *stateLayer) isDead(o *other) bool {
	return o.up && o.unanswered >= unansweredMost && m.now.Slow.Sub(o.askedAt) >= m.maxTTL()
}

// polls reports whether this node asks others for reports: voters do, and nodes that know no
// electorate. If the mesh is born by count, all nodes look whether there is a majority.
func (m *contactLayer) polls() bool {
	return m.member() || m.state.Electorate.Version == 0 || m.byCount()
}

// pollEvery is the interval between polls of the voters: a tenth of the shortest duration of a
// change.
func (m *contactLayer) pollEvery() time.Duration {
	switch {
	case m.state.Electorate.Version == 0:
		return min(m.maxTTL()/10, 100*time.Millisecond) // founders are in a hurry
	case m.byCount() && !m.member():
		return m.maxTTL() / 2
	}
	return m.maxTTL() / 10
}

// recent reports whether another node has reported recently: within three polling intervals. Before
// a birth by count a report may be older: the founders must reach each other for birthMargin
// without a break, and a packet that is lost and sent again must not count as a break.
func (m *contactLayer) recent(o *other) bool {
	within := 3 * m.pollEvery()
	if m.byCount() && m.state.Electorate.Version == 0 {
		within = max(within, birthMargin/2)
	}
	return o.up && o.spoke && m.now.Slow.Sub(o.reportedAt) <= within
}

// report answers a poll.
func (m *Machine) report(conn vote.Conn, msg *vote.Message) {
	// A directory without a completed save may never get one: others must not pledge with such a
	// directory (found by a simulated world).
	e := &vote.Consensus{Dir: m.state.Dir, MaxVoters: m.cfg.MaxVoters, MaxTTL: m.cfg.MaxTTL, Founding: m.canBeFounder() && m.founding() && m.everStored, Stuck: m.isStuck(), Leaving: m.leaving}
	if m.everStored {
		e.Writes = m.stored.Writes
	}
	e.Electorate.Voters, e.Electorate.Most, e.Electorate.MaxTTL = m.stored.Pledge, m.stored.PledgeMaxVoters, m.stored.PledgeMaxTTL
	if len(m.stored.Pledge) == 0 && m.longest.value > m.cfg.MaxTTL {
		e.Electorate.MaxTTL = m.longest.value // see pledgedMaxTTL
	}
	switch {
	case m.member():
		e.Contacts = m.contacts()
	case m.byCount() && m.state.Electorate.Version == 0:
		e.Contacts = m.freshContacts()
	}
	m.send(conn, vote.Message{
		Kind: vote.KindReport, Nonce: msg.Nonce, Epoch: m.stored.Electorate.Version, Token: m.own.Top, Counting: m.remembers(), Consensus: e,
	})
}

// isStuck reports whether this node can't be voted in, and shouldn't stay a voter for long.
func (m *Machine) isStuck() bool {
	return m.cannotSave() != "" || !m.Trusted() || m.cannotRegister() || m.cfg.Frozen && !m.Votes()
}

// remembers reports whether this node's voter knows all of its promises, and the electorate that
// the voter applies is on disk. The state that a new incarnation finds in its directory isn't
// safely on disk until the incarnation has stored a state itself: the previous incarnation may have
// crashed before a sync, and a loss of power then undoes the write.
//
// A frozen node's directory may be lost, and replaced by one with the same identity. So nothing
// rests on the memory of a frozen node.
func (m *contactLayer) remembers() bool {
	return m.own.Counting && !m.cfg.Frozen && m.Trusted() && m.everStored
}

// reported takes in a report.
func (m *contactLayer) reported(o *other, msg *vote.Message) {
	e := msg.Consensus
	was := o.report
	o.report = report{
		nonce: msg.Nonce, dir: e.Dir, version: msg.Epoch, top: msg.Token, counting: msg.Counting, most: e.MaxVoters,
		founding: e.Founding, stuck: e.Stuck, leaving: e.Leaving, pledge: e.Electorate.Voters, stuckSince: m.now.Slow, leavingSince: m.now.Slow,
		pledgeMaxVoters: e.Electorate.Most, maxTTL: e.MaxTTL, pledgeMaxTTL: e.Electorate.MaxTTL, contacts: e.Contacts,
	}
	if was.stuck && was.dir == e.Dir {
		o.report.stuckSince = was.stuckSince
	}
	if was.leaving && was.dir == e.Dir {
		o.report.leavingSince = was.leavingSince
	}
	if lagging := msg.Epoch < m.stored.Electorate.Version; lagging != o.lagging || was.dir != e.Dir {
		o.lagging, o.laggingSince = lagging, m.now.Slow
	}
	o.uncounted.note(m.now.Slow, o.incarnation, msg.Counting, was.dir != e.Dir, CrashLoopAfter(m.maxTTL()))
	o.reportedAt, o.confirmed, o.spoke, o.unanswered = m.now.Slow, true, true, 0
	m.noteReachable(vote.Elector{Name: o.name, Dir: e.Dir}, true)
	m.compareWrites(o, e)
}

// compareWrites detects a directory that was put back from an old copy: each start of a node writes
// its state, so a new incarnation has a higher write count than any incarnation before.
func (m *stateLayer) compareWrites(o *other, e *vote.Consensus) {
	if e.Writes == 0 || e.Dir == 0 {
		return
	}
	known, ok := o.writes[e.Dir]
	if ok && known.incarnation != o.incarnation && e.Writes <= known.writes && o.copied != e.Dir {
		o.copied, o.copiedAt = e.Dir, m.now.Slow
		m.alarms = append(m.alarms, "the state directory of "+string(o.name)+" is an old copy, and is not trusted: stop the node, remove its state file, and start it again")
	}
	if o.copied == e.Dir { // however far the node counts on from the old copy
		m.send(o.conn, vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonOldCopy, Epoch: m.stored.Electorate.Version})
		return
	}
	o.writes[e.Dir] = written{e.Writes, o.incarnation}
}

// Distrust takes another voter's report that this node's directory is an old copy. The promises
// missing in the copy may decide an election, so this node no longer takes part in anything.
func (m *contactLayer) Distrust(now vote.Now, from vote.NodeID) {
	m.begin(now)
	if m.distrusted == "" {
		m.distrusted = "the state directory is an old copy: " + string(from) + " knows of later writes to it. Stop this node, remove the state file, and start it again: it is " +
			"voted in anew"
		if m.cfg.Frozen {
			// With FromFixed the next directory would have the same identity.
			m.distrusted = "the state directory is an old copy, or a new one in place of a lost one: " + string(from) + " knows of later writes to it. Stop this node, remove the " +
				"state file, and start it again without FromFixed: it is voted in anew"
		}
		m.alarms = append(m.alarms, m.distrusted)
	}
}
