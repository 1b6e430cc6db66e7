package electorate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const maxTTL = time.Second

// lab is a few machines with perfect links, disks under the test's control, and a common clock. A
// link goes both ways; each side has dialed one of its two connections.
type lab struct {
	t            *testing.T
	now          vote.Now
	names        []vote.NodeID // in order
	cfg          Config
	units        map[vote.NodeID]*unit
	conns        map[vote.Conn]wire
	last         vote.Conn
	dirs         vote.Dir
	incarnations vote.Incarnation
	mail         []letter
	lose         func(l letter) bool // nil: nothing is lost
	seen         map[vote.NodeID]Seen
	talk         []string // the delivered messages
	// closed are the connections closed by machines; redial links the nodes again
	closed   []vote.Conn
	ticks    map[vote.NodeID]int
	register register // of births; see register_test.go
}

type wire struct{ from, to vote.NodeID } // from dialed to

type letter struct {
	conn        vote.Conn
	from, to    vote.NodeID
	incarnation vote.Incarnation // of the sender
	m           vote.Message
}

// unit is a machine and its disk.
type unit struct {
	m      *Machine
	self   vote.SessionID
	disk   vote.DiskState // the content of the directory
	broken string         // the error of failing saves
	slow   bool           // saves wait for flush
	saves  []vote.DiskState
	alarms []string
	top    vote.Token
	quiet  bool // the voter's votes don't count
}

func newLab(t *testing.T, founders string) *lab {
	l := &lab{
		t: t, now: vote.Now{Fast: 1e12, Slow: 1e12, Wall: 1_700_000_000_000_000}, units: map[vote.NodeID]*unit{}, conns: map[vote.Conn]wire{},
		seen: map[vote.NodeID]Seen{}, ticks: map[vote.NodeID]int{},
	}
	l.cfg = Config{Founders: nodes(founders), MaxTTL: maxTTL}
	return l
}

func nodes(list string) (all []vote.NodeID) {
	for _, name := range strings.Fields(list) {
		all = append(all, vote.NodeID(name))
	}
	return all
}

// start begins an incarnation of each node, with the content of its directory or with a new
// directory. found: the node is configured to bootstrap the electorate.
func (l *lab) start(list string, found bool) {
	for _, name := range nodes(list) {
		u := l.units[name]
		if u == nil {
			u = l.add(name)
		}
		l.incarnations++
		u.self = vote.SessionID{Node: name, Incarnation: l.incarnations}
		cfg := l.cfg
		cfg.Self, cfg.MayFound = u.self, found
		u.m = New(cfg, u.disk, l.now)
		l.seen[name] = Seen{name, u.disk.Dir, vote.Alive}
		l.collect(u)
		for _, other := range l.names {
			if o := l.units[other]; other != name && o.m != nil {
				l.link(name, other)
				l.link(other, name)
			}
		}
	}
	l.gossip()
}

// add creates a node with a new directory. The node isn't started.
func (l *lab) add(name vote.NodeID) *unit {
	l.dirs++
	u := &unit{disk: vote.DiskState{Mesh: "m", Name: name, Dir: l.dirs}}
	l.units[name] = u
	l.names = append(l.names, name)
	slices.Sort(l.names)
	return u
}

// stop ends a node's incarnation without a message. The disk has the flushed saves.
func (l *lab) stop(list string) {
	for _, name := range nodes(list) {
		u := l.units[name]
		u.m, u.saves = nil, nil
		for _, c := range l.wires() {
			if w := l.conns[c]; w.from == name || w.to == name {
				l.cut(c)
			}
		}
		l.seen[name] = Seen{name, u.disk.Dir, vote.Failed}
	}
	l.gossip()
}

// wipe ends a node's incarnation, and gives the node a new directory.
func (l *lab) wipe(name vote.NodeID) {
	l.stop(string(name))
	l.dirs++
	l.units[name].disk = vote.DiskState{Mesh: "m", Name: name, Dir: l.dirs}
}

func (l *lab) link(from, to vote.NodeID) {
	l.last++
	l.conns[l.last] = wire{from, to}
	u := l.units[from]
	u.m.Link(l.now, l.last, l.units[to].self)
	l.collect(u)
}

func (l *lab) cut(c vote.Conn) {
	w := l.conns[c]
	delete(l.conns, c)
	for _, end := range []vote.NodeID{w.from, w.to} {
		if u := l.units[end]; u.m != nil {
			u.m.Unlink(l.now, c)
			l.collect(u)
		}
	}
}

func (l *lab) wires() (all []vote.Conn) {
	for c := range l.conns {
		all = append(all, c)
	}
	slices.Sort(all)
	return all
}

// gossip sends the state of all nodes to all nodes.
func (l *lab) gossip() { l.gossipTo(l.names) }

// gossipTo sends the state of all nodes to some nodes.
func (l *lab) gossipTo(names []vote.NodeID) {
	var all []Seen
	for _, s := range l.seen {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Seen) int { return strings.Compare(string(a.Name), string(b.Name)) })
	for _, name := range names {
		if u := l.units[name]; u.m != nil {
			l.setOwnVoter(u).Gossip(l.now, all)
			l.collect(u)
		}
	}
	l.run()
}

// setOwnVoter informs a machine about its voter, which applies the stored electorate, as in package
// node.
func (l *lab) setOwnVoter(u *unit) *Machine {
	u.m.SetOwnVoter(OwnVoter{Top: u.top, Counting: !u.quiet && u.m.Stored().Has(u.m.Elector()) && u.m.Counts() > l.now.Fast})
	return u.m
}

// collect takes a machine's messages, saves, alarms and register calls.
func (l *lab) collect(u *unit) {
	for {
		u.saves = append(u.saves, u.m.Saves()...)
		if len(u.saves) == 0 || u.slow {
			break
		}
		l.flush(u)
	}
	u.alarms = append(u.alarms, u.m.Alarms()...)
	for _, c := range u.m.RegisterCalls() {
		l.register.calls = append(l.register.calls, registerCall{u.self, c})
	}
	for _, o := range u.m.Drain(nil) {
		to := u.self.Node
		if o.Close {
			l.closed = append(l.closed, o.Conn)
			continue
		}
		if w, ok := l.conns[o.Conn]; ok {
			if to = w.to; to == u.self.Node {
				to = w.from
			}
		} else if o.Conn != vote.LocalConn {
			continue
		}
		l.mail = append(l.mail, letter{o.Conn, u.self.Node, to, u.self.Incarnation, o.Message})
	}
}

// flush completes the oldest save.
func (l *lab) flush(u *unit) {
	s := u.saves[0]
	u.saves = u.saves[1:]
	if u.broken == "" {
		u.disk = s
	}
	l.setOwnVoter(u).Saved(l.now, s.Writes, u.broken)
	l.setOwnVoter(u)
}

// flushAll completes all waiting saves of a node, and the saves that follow.
func (l *lab) flushAll(name vote.NodeID) {
	for u := l.units[name]; len(u.saves) > 0; {
		l.flush(u)
		l.collect(u)
		l.run()
	}
}

// redial cuts the connections closed by machines, and links the nodes again.
func (l *lab) redial() {
	for len(l.closed) > 0 {
		c := l.closed[0]
		l.closed = l.closed[1:]
		if w, ok := l.conns[c]; ok {
			l.cut(c)
			l.link(w.from, w.to)
		}
	}
	for _, name := range l.names {
		if u := l.units[name]; u.m != nil && u.m.Elector().Dir != l.seen[name].Dir {
			u.disk.Dir = u.m.Elector().Dir
			l.seen[name] = Seen{name, u.disk.Dir, vote.Alive}
			l.gossip()
		}
	}
}

// run delivers until no message and no register call is left.
func (l *lab) run() {
	l.redial()
	for n := 0; len(l.mail) > 0 || len(l.register.calls) > 0; n++ {
		if n > 100_000 {
			l.t.Fatalf("no end of it: %s", strings.Join(l.talk[len(l.talk)-20:], ", "))
		}
		if len(l.mail) == 0 {
			l.answer()
			l.redial()
			continue
		}
		m := l.mail[0]
		l.mail = l.mail[1:]
		if l.lose == nil || !l.lose(m) {
			l.deliver(m)
			l.redial()
		}
	}
}

func (l *lab) deliver(m letter) {
	u := l.units[m.to]
	if _, ok := l.conns[m.conn]; u.m == nil || !ok && (m.conn != vote.LocalConn || m.incarnation != u.self.Incarnation) {
		return
	}
	l.talk = append(l.talk, fmt.Sprintf("%s>%s %s", m.from, m.to, m.m.Kind))
	switch m.m.Kind {
	case vote.KindPoll, vote.KindReport, vote.KindElectorate, vote.KindRefused:
		u.m.NoteVersion(l.now, m.conn, m.m.Epoch)
	}
	if m.m.Kind == vote.KindRefused {
		u.m.Distrust(l.now, m.from)
	} else {
		l.setOwnVoter(u).Receive(l.now, m.conn, vote.SessionID{Node: m.from, Incarnation: m.incarnation}, &m.m)
	}
	l.collect(u)
}

// pass lets time pass, from the Next of a machine to the following. If a machine's Next stays at an
// instant, the machine announces work and does none, and the test fails.
func (l *lab) pass(d time.Duration) {
	l.t.Helper()
	end := l.now.Slow.Add(d)
	for {
		l.run()
		next := end
		for _, name := range l.names {
			if u := l.units[name]; u.m != nil {
				next = min(next, u.m.Next())
			}
		}
		if by := next.Sub(l.now.Slow); by > 0 {
			l.now.Fast, l.now.Slow, l.now.Wall = l.now.Fast.Add(by), next, l.now.Wall+vote.Micros(by.Microseconds())
			clear(l.ticks)
		}
		for _, name := range l.names {
			if u := l.units[name]; u.m != nil && u.m.Next() <= l.now.Slow {
				if l.ticks[name]++; l.ticks[name] > 3 {
					l.t.Fatalf("%s wants to be ticked at the same instant without end", name)
				}
				l.setOwnVoter(u).Tick(l.now)
				l.collect(u)
			}
		}
		if l.now.Slow >= end && len(l.mail) == 0 {
			return
		}
	}
}

// want checks the electorate known to nodes, as text.
func (l *lab) want(list, electorate string) {
	l.t.Helper()
	for _, name := range nodes(list) {
		if got := text(l.units[name].m.Known()); got != electorate {
			l.t.Fatalf("%s knows %q, want %q; %+v", name, got, electorate, l.units[name].m.Status(l.now))
		}
	}
}

// text formats an electorate: the version and the names, with old voters in brackets.
func text(e *vote.Electorate) string {
	if e.Version == 0 {
		return "none"
	}
	t := fmt.Sprintf("%d: %s", vote.VersionNumber(e.Version), names(e.Voters))
	if e.Joint() {
		t += " (" + names(e.Old) + ")"
	}
	return t
}

// founded returns a lab with founders that have bootstrapped version 1.
func founded(t *testing.T, founders string) *lab {
	t.Helper()
	l := newLab(t, founders)
	l.start(founders, true)
	l.pass(maxTTL)
	l.want(founders, "1: "+strings.Join(strings.Fields(founders), ", "))
	l.talk = nil
	return l
}
