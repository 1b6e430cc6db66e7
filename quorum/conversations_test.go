package quorum

import (
	"bytes"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/conversation"
	"github.com/lockmesh/lockmesh/internal/vote"
)

var update = flag.Bool("update", false, "write the conversations in testdata anew from what the requester says now")

// TestConversations compares a requester's messages and events with the conversations in testdata:
// a change of behaviour is a change of text. A line is a command; the indented lines below a
// command are the messages to the voters, and the events.
//
//	start 3                  a requester with the voters v0, v1 and v2, which aren't connected
//	pass 400ms               time goes by, from one timer to the next
//	v0 links                 the connection to v0 is up, and v0 answers the sync
//	v0 links 1 serial=S token=T [slot=N]   the same, and v0 has a vote for request 1
//	v0 opens                 the connection is up, and v0 doesn't answer yet
//	v0 breaks                the connection is gone
//	v0 acks                  v0 acknowledges the newest refresh, and keeps what it should keep
//	all links, all acks      the same for each voter
//	v0 KIND 1 [serial=S] [token=T] [slot=N] [permits=N] [version=N] [who=NODE] [revoke]
//	    a message of v0: promise, confirmed, inquire, held, released, busy, permits-differ, clash,
//	    extended, value-stored, contended, refused
//	v0 shows N k:a:1 ...     v0 answers query N: a holds k by its request 1
//	locks k [try] [shared | permits=N] [beside=1] [length=400ms [fixed]] [delay=1s] [minhold=1s]
//	    [value=TEXT]
//	releases 1, lapses 1     the lease is given back; or it was over before
//	downgrades 1
//	sets 1 value=TEXT
//	extends 1 for=400ms
//	queries k, inspects k, watches k, unwatches N
func TestConversations(t *testing.T) {
	conversation.TestAll(t, *update, func(t *testing.T) conversation.Machine { return &dialogue{t: t} })
}

// dialogue plays a conversation to a requester.
type dialogue struct {
	t   *testing.T
	b   *bench
	buf bytes.Buffer
}

// Buffer implements [conversation.Machine].
func (d *dialogue) Buffer() *bytes.Buffer { return &d.buf }

// Do implements [conversation.Machine].
func (d *dialogue) Do(t *testing.T, w []string) {
	t.Helper()
	switch w[0] {
	case "start":
		d.b = newBench(t, int(d.number(w[1])))
		d.b.sink = d.hear
	case "pass":
		d.pass(d.duration(w[1]))
	case "all":
		for _, v := range d.b.names {
			d.voter(v, w[1], w[2:])
		}
	default:
		if v := vote.NodeID(w[0]); d.b.q.Knows(v) {
			d.voter(v, w[1], w[2:])
		} else {
			d.caller(w[0], w[1:])
		}
	}
	d.b.drain()
	if err := d.b.q.Audit(); err != nil {
		t.Errorf("after %q: %v", w, err)
	}
}

func (d *dialogue) number(s string) uint64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

func (d *dialogue) duration(s string) time.Duration {
	t, err := time.ParseDuration(s)
	if err != nil {
		d.t.Fatal(err)
	}
	return t
}

// pass lets time go by from one timer to the next.
func (d *dialogue) pass(t time.Duration) {
	end := d.b.now.Fast.Add(t)
	for d.b.now.Fast < end {
		next := min(max(d.b.q.Next(), d.b.now.Fast+1), end)
		d.b.pass(next.Sub(d.b.now.Fast))
	}
}

// voter has a voter do something.
func (d *dialogue) voter(v vote.NodeID, verb string, args []string) {
	b := d.b
	opt, words := conversation.Options(args)
	has := func(word string) bool {
		for _, w := range words {
			if w == word {
				return true
			}
		}
		return false
	}
	m := vote.Message{
		Serial: vote.Serial(d.number(opt["serial"])), Token: vote.Token(d.number(opt["token"])), Slot: vote.Slot(d.number(opt["slot"])),
		Version: d.number(opt["version"]), Who: vote.NodeID(opt["who"]), Revoke: has("revoke"),
	}
	m.Permits = uint16(d.number(opt["permits"]))
	if len(words) > 0 && verb != "shows" {
		m.Number = vote.Number(d.number(words[0]))
	}
	switch verb {
	case "links":
		var votes []vote.Entry
		if m.Number != 0 {
			votes = []vote.Entry{{Number: m.Number, Serial: m.Serial, Token: m.Token, Slot: m.Slot}}
		}
		b.link(v, votes...)
	case "opens":
		b.q.Link(b.now, b.place(v), vote.SessionID{Node: v, Incarnation: 5})
	case "breaks":
		b.q.Unlink(b.now, b.place(v))
	case "acks":
		b.ack(v, nil)
	case "shows":
		var views []vote.View
		for _, w := range words[1:] {
			f := strings.Split(w, ":")
			views = append(views, vote.View{
				Key: vote.Key(f[0]), Owner: vote.SessionID{Node: vote.NodeID(f[1]), Incarnation: 1}, Number: vote.Number(d.number(f[2])),
				Mode: vote.Exclusive, State: vote.Holding, Token: 100, Left: ttl,
			})
		}
		b.sends(v, vote.Message{Kind: vote.KindQueryResult, Nonce: d.number(words[0]), Views: views, End: true})
	default:
		for k := vote.KindNone + 1; k <= vote.KindAccepted; k++ {
			if k.String() == verb {
				m.Kind = k
			}
		}
		switch m.Kind {
		case vote.KindNone:
			d.t.Fatalf("no message is called %q", verb)
		case vote.KindRefused:
			m.Number, m.Reason = 0, vote.ReasonNameTaken
		case vote.KindExtended:
			m.Sent = b.now.Fast
		}
		b.sends(v, m)
	}
}

// caller has a caller of the requester do something.
func (d *dialogue) caller(verb string, args []string) {
	q, now := d.b.q, d.b.now
	opt, words := conversation.Options(args)
	number := func() vote.Number { return vote.Number(d.number(words[0])) }
	switch verb {
	case "locks":
		ask := Exclusive(vote.Key(words[0]), false)
		ask.Value = []byte(opt["value"])
		for k, v := range opt {
			conversation.SpecOption(&ask.Spec, k, v)
		}
		for _, w := range words[1:] {
			if w == "fixed" {
				ask.Fixed = true
			} else if !conversation.SpecOption(&ask.Spec, w, "") {
				d.t.Fatalf("what is %q?", w)
			}
		}
		n, err := q.Lock(now, ask)
		fmt.Fprintf(&d.buf, "    request %d", n)
		conversation.Show(&d.buf)(err != nil, "%v", err)
		fmt.Fprintln(&d.buf)
	case "releases":
		q.Release(now, number())
	case "lapses":
		q.Lapse(now, number())
	case "downgrades":
		if !q.Downgrade(now, number()) {
			fmt.Fprintln(&d.buf, "    there is no such lease")
		}
	case "sets":
		fmt.Fprintf(&d.buf, "    version %d\n", q.SetValue(now, number(), []byte(opt["value"])))
	case "extends":
		held, confirmed := q.Extend(now, number(), d.duration(opt["for"]), 0)
		fmt.Fprintf(&d.buf, "    held %v, to be confirmed for %v\n", held, confirmed.Sub(now.Fast))
	case "queries":
		fmt.Fprintf(&d.buf, "    query %d\n", q.Query(now, vote.Key(words[0])))
	case "inspects":
		fmt.Fprintf(&d.buf, "    query %d\n", q.Inspect(now, vote.Key(words[0])))
	case "watches":
		fmt.Fprintf(&d.buf, "    watch %d\n", q.Watch(now, vote.Key(words[0]), false))
	case "unwatches":
		q.Unwatch(now, d.number(words[0]))
	default:
		d.t.Fatalf("what is %q?", verb)
	}
}

// hear writes what the requester says down.
func (d *dialogue) hear(out []vote.Outbound, events []Event) {
	show := conversation.Show(&d.buf)
	for i := range out {
		v, m := d.b.names[out[i].Conn-1], &out[i].Message
		if out[i].Close {
			fmt.Fprintf(&d.buf, "    %s: connection closed\n", v)
			continue
		}
		fmt.Fprintf(&d.buf, "    %s: %s", v, m.Kind)
		show(m.Number != 0, "%d", m.Number)
		show(m.Key != "", "%s", m.Key)
		show(m.Mode > vote.Exclusive, "%s", m.Mode)
		show(m.Try, "try")
		show(m.Nonce != 0, "nonce=%d", m.Nonce)
		show(m.Serial != 0, "serial=%d", m.Serial)
		show(m.Slot != 0, "slot=%d", m.Slot)
		show(m.Token != 0, "token=%d", m.Token)
		show(m.TokenHint != 0, "hint=%d", m.TokenHint)
		show(m.Permits != 0, "permits=%d", m.Permits)
		show(m.Beside != 0, "beside=%d", m.Beside)
		show(m.Length != 0, "length=%v", m.Length)
		show(m.Delay != 0, "delay=%v", m.Delay)
		show(m.MinHold != 0, "minhold=%v", m.MinHold)
		show(m.Version != 0, "version=%d %q", m.Version, m.Value)
		show(m.Won, "won")
		show(m.Lost, "lost")
		show(m.Void, "void")
		show(m.Kind == vote.KindRefresh, "received=%d", m.Received)
		for _, e := range m.Entries {
			fmt.Fprintf(&d.buf, " [%d %s", e.Number, e.Key)
			show(e.Mode > vote.Exclusive, "%s", e.Mode)
			show(e.Slot != 0, "slot=%d", e.Slot)
			show(e.Token != 0, "token=%d won", e.Token)
			show(e.Yielded != 0, "yielded=%d", e.Yielded)
			fmt.Fprint(&d.buf, "]")
		}
		fmt.Fprintln(&d.buf)
	}
	for i := range events {
		e := &events[i]
		fmt.Fprintf(&d.buf, "    -> %s", eventNames[e.Kind])
		show(e.Number != 0, "%d", e.Number)
		show(e.Token != 0, "token=%d", e.Token)
		show(e.Group != 0, "group=%d", e.Group)
		show(e.Slot != 0, "slot=%d", e.Slot)
		show(e.Until != 0, "for %v", e.Until.Sub(d.b.now.Fast))
		show(e.Version != 0, "version=%d", e.Version)
		show(e.Nonce != 0, "nonce=%d", e.Nonce)
		show(e.Who != "", "who=%s", e.Who)
		show(e.Revoke, "revoke")
		show(e.Wait.Reason != WaitNone, "(%s)", e.Wait.Text)
		show(e.Text != "", "%s", e.Text)
		if e.Result != nil {
			for _, v := range e.Result.Views {
				fmt.Fprintf(&d.buf, "\n        %s", conversation.ViewText(v))
			}
		}
		fmt.Fprintln(&d.buf)
	}
}

var eventNames = map[EventKind]string{
	EventGranted: "granted", EventFailed: "failed", EventLost: "lost", EventReleased: "released", EventMoved: "moved",
	EventValidity: "validity", EventContended: "contended", EventEvicted: "evicted", EventExtended: "extended",
	EventValueSet: "value set", EventQueryDone: "query done", EventNews: "news", EventRevokeForwarded: "revoke forwarded",
	EventAlarm: "ALARM", EventDrift: "DRIFT", EventElectorate: "electorate", EventRenewed: "renewed", EventNotice: "notice",
}
