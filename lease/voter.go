// Package lease is the voter's side of the protocol: it promises keys to requests, in order of their stamps, for as long as the
// requests' sessions last, from memory alone.
//
// A Voter is a deterministic state machine. It starts no goroutine, reads no clock and does no I/O: each call is told the time and
// appends what is to be sent. Its owner (package internal/node) calls it from one goroutine at a time.
package lease

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Limits of what a voter keeps. They bound its memory against a runaway application; beyond them a request is answered "busy".
const (
	// MaxSessions is how many sessions a voter keeps: one for each life of each node, an order of magnitude above a large mesh.
	MaxSessions = 4096
	// MaxRequests is how many requests a voter keeps for one session, waiting and granted together. A million held leases must work.
	MaxRequests = 2 << 20
)

// MinTenure is the least time a tentative promise may stand before it is inquired of for its age alone. Four round trips on
// one machine take microseconds, less than a busy scheduler needs to run the requester once.
const MinTenure = 20 * time.Millisecond

// tenureTrips is how many of the requester's round trips a tentative promise may last: one to collect votes, one to confirm
// their token, and as much again for a voter that was slow.
const tenureTrips = 4

// Config is what a voter must know. All voters of a mesh agree on MaxTTL.
type Config struct {
	Self       vote.SessionID
	Dir        vote.Dir        // of its state, where the electorate follows the living; zero where it is fixed
	Electorate vote.Electorate // that it goes by at first; it may be none, or one without this voter
	MaxTTL     time.Duration   // the longest session; also how long a new voter is quiet
	Fresh      bool            // its directory is new, so no earlier life of it has promised anything: it isn't quiet
}

// Voter grants votes. Its zero value is not usable; see New.
type Voter struct {
	cfg       Config
	now       vote.Now
	out       []vote.Outbound // what the call under way wants sent
	alarms    []string
	rival     vote.SessionID // the newest life that was turned away for its name
	broken    bool           // an invariant failed: nothing is promised or extended any more
	sessions  map[vote.SessionID]*session
	listed    []*session // the same, in order of creation, so that nothing depends on the order of a map
	keys      table[vote.Key, *key]
	serial    vote.Serial
	lastGen   vote.Generation
	quiet     quiet
	elected   elected
	tokens    floor
	ghosts    ghosts
	reminders reminders
	news      news
	idle      rests        // keys that nobody wants or holds, about in order of the time at which they are looked at again
	due       vote.Instant // no timer fires before this instant of the slow clock
	count     Counters

	sessionsDue vote.Instant        // the earliest at which a session is due, unless moved
	moved       bool                // a session may be due later than it was
	grace       time.Duration       // of the promises that are being made; see exorcise
	bid         vote.Token          // that a release has brought, for the promises that come of it; zero for none
	unsaid      vote.Message        // what can't be heard is written here
	recent      [recentMax]*session // who spoke last, by connection

	spareEntries spare[entry]
	spareExtras  spare[extras]
	spareKeys    spare[key]
}

// Counters count what a voter has done in its life, for figures and for tests that want to see a rare path reached.
type Counters struct {
	Promises, Inquiries, Yields, Tenures, Confirms, Expired, Restated, Refused, Superseded, LastResort uint64
}

// New returns a voter that starts its life now, quietly.
func New(cfg Config, now vote.Now) *Voter {
	v := &Voter{
		cfg:      cfg,
		now:      now,
		sessions: make(map[vote.SessionID]*session),
		ghosts:   make(ghosts),
		moved:    true,
	}
	if !cfg.Fresh {
		v.quiet.until = now.Slow.Add(cfg.MaxTTL)
	}
	v.due = v.quiet.until
	v.goBy(cfg.Electorate)
	return v
}

// Step takes in one message of a requester that came over conn, and appends to out what is to be sent.
// Anything may be in the message; what makes no sense is ignored, or answered with an error of the protocol.
func (v *Voter) Step(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	switch m.Kind {
	case vote.KindOpen:
		if !v.elected.member {
			v.refuse(conn, m.Stream, vote.ReasonNotVoter)
			break
		}
		v.open(conn, from, m)
	case vote.KindAsk:
		t := v.say(conn, vote.KindTell)
		t.Nonce, t.Token, t.Counting = m.Nonce, v.tokens.top, v.counting()
	case vote.KindLook:
		v.look(conn, m)
	case vote.KindWatch:
		v.watch(conn, m)
	case vote.KindRevoke:
		v.revoke(conn, from, m)
	default:
		s := v.session(conn, from)
		if s == nil || s.stream != m.Stream || s.conn != conn || !s.linked || s.superseded {
			v.unknown(conn, m.Stream)
			break
		}
		v.hear(s, m)
	}
	return v.end()
}

// hear takes in a message on a session's current stream.
func (v *Voter) hear(s *session, m *vote.Message) {
	switch m.Kind {
	case vote.KindStatement:
		v.state(s, m)
		return
	case vote.KindRefresh:
		v.refresh(s, m)
		return
	case vote.KindAlive:
		v.alive(s)
		return
	}
	if s.candidate && s.complete {
		s.spoke = true // it is told once it is known whether it may speak
		return
	}
	if s.stating {
		// A requester speaks only after the end mark of its statement, so this is not one of ours. Start anew.
		v.unknown(s.conn, m.Stream)
		return
	}
	s.processed++
	switch m.Kind {
	case vote.KindRequest:
		v.request(s, m)
	case vote.KindConfirm:
		v.confirm(s, m)
	case vote.KindYield:
		v.yield(s, m)
	case vote.KindRelease:
		v.release(s, m)
	case vote.KindExtend:
		v.extend(s, m)
	case vote.KindShare:
		v.share(s, m)
	case vote.KindSet:
		v.set(s, m)
	case vote.KindUrge:
		v.urge(s, m)
	}
}

// Tick lets time pass: sessions end, tenures end, quiet ends.
func (v *Voter) Tick(now vote.Now, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	return v.end()
}

// Unlink says that a connection is gone. The session lives on until its deadline, and its votes with it, but no new vote is
// given to one that can't hear of it.
func (v *Voter) Unlink(now vote.Now, conn vote.Conn, out []vote.Outbound) []vote.Outbound {
	v.begin(now, out)
	v.news.unlink(conn)
	for _, s := range slices.Clone(v.listed) {
		if s.linked && s.conn == conn {
			v.unlink(s)
		}
	}
	return v.end()
}

// Next returns the instant of the slow clock before which Tick has nothing to do.
func (v *Voter) Next() vote.Instant { return v.due }

// Alarms returns what an operator must hear of, and forgets it.
func (v *Voter) Alarms() []string {
	a := v.alarms
	v.alarms = nil
	return a
}

// Counters returns what the voter has done in its life.
func (v *Voter) Counters() Counters { return v.count }

func (v *Voter) begin(now vote.Now, out []vote.Outbound) {
	if now.Slow < v.now.Slow {
		now.Slow = v.now.Slow // a voter's clock never goes back
	}
	v.now, v.out = now, out
	if now.Slow >= v.due {
		v.advance()
	}
}

func (v *Voter) end() []vote.Outbound {
	out := v.out
	v.out = nil
	return out
}

// advance runs every timer that is due and notes when the next one is.
func (v *Voter) advance() {
	v.due = vote.Never
	v.advanceSessions()
	v.advanceQuiet()
	v.advanceReminders()
	v.advanceIdle()
}

// at makes sure that Tick is called at the instant i.
func (v *Voter) at(i vote.Instant) {
	if i < v.due {
		v.due = i
	}
}

// say sends a message, and returns it to be filled in before anything else is said. It is made where it will be read, since a message is large.
func (v *Voter) say(conn vote.Conn, kind vote.Kind) *vote.Message {
	n := len(v.out)
	if n < cap(v.out) {
		v.out = v.out[:n+1]
		v.out[n] = vote.Outbound{}
	} else {
		v.out = append(v.out, vote.Outbound{})
	}
	o := &v.out[n]
	o.Conn, o.Message.Kind = conn, kind
	return &o.Message
}

// unknown says that this voter knows no such stream.
func (v *Voter) unknown(conn vote.Conn, stream vote.Stream) {
	v.say(conn, vote.KindUnknown).Stream = stream
}

func (v *Voter) closeConn(conn vote.Conn) {
	v.out = append(v.out, vote.Outbound{Conn: conn, Close: true})
}

func (v *Voter) alarm(format string, args ...any) {
	v.alarms = append(v.alarms, fmt.Sprintf(format, args...))
}

// violated says that an invariant of our own doesn't hold. The voter then withdraws: it promises and extends nothing more, so that what
// it has promised ends by itself, and the application goes on.
func (v *Voter) violated(format string, args ...any) {
	if !v.broken {
		v.broken = true
		v.alarm("broken invariant, this voter withdraws: "+format, args...)
	}
}
