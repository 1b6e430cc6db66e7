package lease

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

var update = flag.Bool("update", false, "write the conversations in testdata anew from what the voter says now")

// TestConversations compares a voter's messages with the conversations in testdata: a change of
// behaviour is a change of text. A line is a command; the indented lines below a command are the
// messages sent by the voter.
//
//	start 3                     a voter that starts its incarnation now, one of 3
//	awake 3                     the same, after the startup quarantine
//	pass 400ms                  time goes by
//	a opens [ttl=1s]            a's next stream begins, with an empty sync
//	a syncs 1:k[:won=T][:yielded=S][:slot=N][:shared ...] ...   a's next stream, with a sync
//	a asks 1:k [at=T] [hint=B] [try] [shared | permits=N] [beside=1] [length=400ms] [delay=1s]
//	    [minhold=1s] [ends=300ms]
//	a confirms 1 serial=S token=T [slot=N] [won]
//	a yields 1 serial=S [slot=N]   with a slot: only this slot is of use
//	a releases 1 [lost]         lost: the lease was over before the release
//	a extends 1 serial=S        the vote is to last for the request's length from now
//	a shares 1                  from exclusive to shared
//	a sets 1 version=V value=TEXT
//	a revokes-for 1 [why=TEXT]  a revoke request to the holder
//	a queries 7:k               a query for holders and waiters; 7 is the nonce of the query
//	a watches 7:k [again seq=N] a watch of k, from now on or (again) since N. k* are all keys that
//	                            begin with k, * is every key
//	a revokes 7:k [why=TEXT]
//	a refreshes received=N [trip=T]   trip, in milliseconds, reports that a reaches a majority
//	a breaks                    a's connection is gone
//	a tells N [quiet]           a answers the voter's query for the highest token
//	repeat N a asks 1:k ...     the same N times over, with rising numbers
func TestConversations(t *testing.T) {
	conversation.TestAll(t, *update, func(*testing.T) conversation.Machine { return newTalk() })
}

const wall = 1_000_000 // a small start of the wall clock, in microseconds, for readable tokens

type talk struct {
	v       *Voter
	now     vote.Now
	streams map[string]vote.Stream
	buf     bytes.Buffer
}

func newTalk() *talk {
	return &talk{now: vote.Now{Fast: 1, Slow: 1, Wall: wall}, streams: map[string]vote.Stream{}}
}

// all runs some lines.
func (c *talk) all(t *testing.T, lines ...string) {
	for _, l := range lines {
		c.do(t, strings.Fields(l))
	}
}

// Do implements [conversation.Machine].
func (c *talk) Do(t *testing.T, words []string) { c.do(t, words) }

// Buffer implements [conversation.Machine].
func (c *talk) Buffer() *bytes.Buffer { return &c.buf }

func (c *talk) do(t *testing.T, w []string) {
	t.Helper()
	defer func() {
		if c.v == nil {
			return
		}
		if err := c.v.Audit(); err != nil {
			t.Errorf("after %q: %v", w, err)
		}
	}()
	switch w[0] {
	case "start", "awake":
		n, _ := strconv.Atoi(w[1])
		var voters []vote.NodeID
		for i := range n {
			voters = append(voters, vote.NodeID(fmt.Sprintf("v%d", i)))
		}
		c.v = New(Config{Self: vote.SessionID{Node: "v0", Incarnation: 9}, Electorate: fixed(voters), MaxTTL: time.Second}, c.now)
		if w[0] == "awake" {
			c.pass(time.Second)
			for _, v := range voters[1:] {
				c.hear(c.v.ReceiveTokenAnswer(c.now, v, &vote.Message{Kind: vote.KindTokenAnswer, Nonce: 9, Counting: true}, nil))
			}
		}
	case "pass":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			t.Fatal(err)
		}
		c.pass(d)
	case "repeat":
		times, err := strconv.Atoi(w[1])
		if err != nil {
			t.Fatal(err)
		}
		number, rest, _ := strings.Cut(w[4], ":")
		first, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		for i := range times {
			args := append([]string{strings.TrimSuffix(fmt.Sprintf("%d:%s", first+i, rest), ":")}, w[5:]...)
			c.speak(t, w[2], w[3], args)
		}
	default:
		c.speak(t, w[0], w[1], w[2:])
	}
}

// pass lets time go by from one timer to the next.
func (c *talk) pass(d time.Duration) {
	end := c.now.Slow.Add(d)
	for {
		next := min(max(c.v.Next(), c.now.Slow+1), end)
		by := next.Sub(c.now.Slow)
		c.now.Slow, c.now.Fast = next, c.now.Fast.Add(by)
		c.now.Wall = wall + vote.Micros(time.Duration(next).Microseconds())
		c.hear(c.v.Tick(c.now, nil))
		if _, ask := c.v.NextTokenQuery(c.now); ask {
			fmt.Fprintf(&c.buf, "    (asks the others)\n")
		}
		if next == end {
			return
		}
	}
}

func (c *talk) hear(out []vote.Outbound) {
	for _, o := range out {
		who := string(rune('a' + o.Conn - 1))
		if o.Close {
			fmt.Fprintf(&c.buf, "    %s: connection closed\n", who)
			continue
		}
		m := o.Message
		fmt.Fprintf(&c.buf, "    %s: %s", who, m.Kind)
		show := conversation.Show(&c.buf)
		show(m.Number != 0, "%d", m.Number)
		show(m.Nonce != 0, "nonce=%d", m.Nonce)
		show(m.Serial != 0, "serial=%d", m.Serial)
		show(m.Slot != 0, "slot=%d", m.Slot)
		show(m.Token != 0, "token=%d", m.Token)
		show(m.Permits != 0, "permits=%d", m.Permits)
		show(m.Version != 0, "version=%d", m.Version)
		show(m.Quiet != 0, "quiet=%v", m.Quiet)
		show(m.Generation != 0, "generation=%d", m.Generation)
		show(m.Reason != 0, "%q", m.Reason)
		show(m.Revoke, "revoke")
		show(m.Who != "", "who=%s", m.Who)
		show(m.Text != "", "%q", m.Text)
		show(m.Kind == vote.KindRevokeForwarded, "to %d", m.Count)
		show(m.Kind == vote.KindEvents, "seq=%d", m.Seq)
		show(m.Gap, "gap")
		show(m.Kind == vote.KindQueryResult && !m.End, "more")
		show(m.Kind == vote.KindAck, "processed=%d pushed=%d count=%d", m.Processed, m.Pushed, m.Count)
		for _, e := range m.Entries {
			fmt.Fprintf(&c.buf, " [%d serial=%d", e.Number, e.Serial)
			show(e.Slot != 0, "slot=%d", e.Slot)
			fmt.Fprintf(&c.buf, " token=%d]", e.Token)
		}
		if len(m.Views) > 8 {
			fmt.Fprintf(&c.buf, " %d views", len(m.Views))
		} else {
			for _, s := range m.Views {
				fmt.Fprintf(&c.buf, "\n        %s", conversation.ViewText(s))
			}
		}
		fmt.Fprintln(&c.buf)
	}
	for _, a := range c.v.Alarms() {
		fmt.Fprintf(&c.buf, "    ALARM %s\n", a)
	}
}

// speak sends a requester's message. "c2" is the second incarnation of c, and "c2'" is "c2" on
// another connection.
func (c *talk) speak(t *testing.T, who, verb string, args []string) {
	who, another := strings.CutSuffix(who, "'")
	from := vote.SessionID{Node: vote.NodeID(who[:1]), Incarnation: 1}
	conn := vote.Conn(who[0]-'a') + 1
	if len(who) > 1 {
		from.Incarnation = 2
		conn += 10
	}
	if another {
		conn += 10
	}
	opt, words := conversation.Options(args)
	num := func(s string) uint64 {
		if s == "" {
			return 0
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s %s %q: %v", who, verb, args, err)
		}
		return n
	}
	has := func(word string) bool {
		for _, w := range words {
			if w == word {
				return true
			}
		}
		return false
	}
	m := vote.Message{
		Stream: c.streams[who], Serial: vote.Serial(num(opt["serial"])), Token: vote.Token(num(opt["token"])), Won: has("won"), Lost: has("lost"),
		Slot: vote.Slot(num(opt["slot"])),
	}
	if len(words) > 0 && verb != "syncs" {
		n, key, _ := strings.Cut(words[0], ":")
		m.Number, m.Key = vote.Number(num(n)), vote.Key(key)
	}
	switch verb {
	case "opens", "syncs":
		c.streams[who]++
		ttl := time.Second
		if s := opt["ttl"]; s != "" {
			ttl, _ = time.ParseDuration(s)
		}
		st := vote.Message{Kind: vote.KindSync, Stream: c.streams[who], End: true}
		for _, w := range words {
			f := strings.Split(w, ":")
			e := vote.Entry{Number: vote.Number(num(f[0])), Spec: vote.Spec{Key: vote.Key(f[1]), Mode: vote.Exclusive}, Time: vote.Micros(num(f[0]))}
			for _, o := range f[2:] {
				k, v, _ := strings.Cut(o, "=")
				switch k {
				case "won":
					e.Token = vote.Token(num(v))
				case "yielded":
					e.Yielded = vote.Serial(num(v))
				case "slot":
					e.Slot = vote.Slot(num(v))
				default:
					if conversation.SpecOption(&e.Spec, k, v) {
						continue
					}
					t.Fatalf("%q", w)
				}
			}
			st.Entries = append(st.Entries, e)
		}
		c.hear(c.v.Step(c.now, conn, from, &vote.Message{Kind: vote.KindOpen, Stream: c.streams[who], TTL: ttl, Sent: c.now.Fast}, nil))
		c.hear(c.v.Step(c.now, conn, from, &st, nil))
		return
	case "asks":
		m.Kind, m.Time, m.TokenHint, m.Mode = vote.KindRequest, vote.Micros(num(opt["at"])), vote.Token(num(opt["hint"])), vote.Exclusive
		for k, v := range opt {
			conversation.SpecOption(&m.Spec, k, v)
		}
		for _, w := range words {
			conversation.SpecOption(&m.Spec, w, "")
		}
	case "extends":
		m.Kind = vote.KindExtend
	case "shares":
		m.Kind = vote.KindDowngrade
	case "sets":
		m.Kind, m.Version, m.Value = vote.KindSetValue, num(opt["version"]), []byte(opt["value"])
	case "revokes-for":
		m.Kind, m.Text = vote.KindRevokeForRequest, opt["why"]
	case "queries", "watches", "revokes":
		m.Kind = map[string]vote.Kind{"queries": vote.KindQuery, "watches": vote.KindWatch, "revokes": vote.KindRevoke}[verb]
		m.Nonce, m.Key, m.Prefix = uint64(m.Number), vote.Key(strings.TrimSuffix(string(m.Key), "*")), strings.HasSuffix(string(m.Key), "*")
		m.Seq, m.Text = num(opt["seq"]), opt["why"]
		if has("again") {
			m.Incarnation = 9
		}
	case "confirms":
		m.Kind = vote.KindConfirm
	case "yields":
		m.Kind = vote.KindYield
	case "releases":
		m.Kind, m.TokenHint = vote.KindRelease, vote.Token(num(opt["hint"]))
	case "refreshes":
		m.Kind, m.Received, m.RTT = vote.KindRefresh, num(opt["received"]), time.Duration(num(opt["trip"]))*time.Millisecond
	case "lives":
		m.Kind = vote.KindProbeReply
	case "breaks":
		c.hear(c.v.Unlink(c.now, conn, nil))
		return
	case "tells":
		c.hear(c.v.ReceiveTokenAnswer(c.now, vote.NodeID("v"+who[1:]), &vote.Message{
			Kind: vote.KindTokenAnswer, Nonce: 9, Token: vote.Token(num(words[0])), Counting: !has("quiet"),
		}, nil))
		return
	default:
		t.Fatalf("what is %q?", verb)
	}
	c.hear(c.v.Step(c.now, conn, from, &m, nil))
}

// fixed is a fixed electorate of these voters.
func fixed(names []vote.NodeID) (e vote.Electorate) {
	for _, n := range names {
		e.Voters = append(e.Voters, vote.Elector{Name: n})
	}
	return e
}
