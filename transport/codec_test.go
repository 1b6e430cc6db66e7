package transport

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// carried lists the fields of Message that travel for each kind, as the comments of package vote
// do. Kind always travels.
var carried = map[vote.Kind]string{
	vote.KindOpen:             "Stream TTL RTT Sent Epoch Heard Void",
	vote.KindSync:             "Stream Entries End",
	vote.KindRequest:          "Stream Number Spec Time TokenHint",
	vote.KindConfirm:          "Stream Number Serial Token Slot Won",
	vote.KindYield:            "Stream Number Serial Slot",
	vote.KindRelease:          "Stream Number TokenHint Lost",
	vote.KindExtend:           "Stream Number Serial TTL Sent",
	vote.KindDowngrade:        "Stream Number",
	vote.KindSetValue:         "Stream Number Version Value",
	vote.KindRevokeForRequest: "Stream Number Text",
	vote.KindQuery:            "Nonce Key Prefix Value Count",
	vote.KindWatch:            "Nonce End Key Prefix Incarnation Seq",
	vote.KindRevoke:           "Nonce Key Token Text",
	vote.KindPermitsDiffer:    "Stream Number Permits",
	vote.KindClash:            "Stream Number",
	vote.KindExtended:         "Stream Number Serial Sent Epoch",
	vote.KindLapsed:           "Stream Number Serial",
	vote.KindValueStored:      "Stream Number Version",
	vote.KindContended:        "Stream Number Token Who Text Revoke",
	vote.KindQueryResult:      "Nonce End Permits Gap TTL Views",
	vote.KindEvents:           "Nonce Incarnation Seq Gap Views",
	vote.KindRevokeForwarded:  "Nonce Count",
	vote.KindRefresh:          "Stream Sent Received RTT Epoch Heard Void",
	vote.KindProbeReply:       "Stream",
	vote.KindTokenQuery:       "Nonce",
	vote.KindAnswer:           "Stream Entries End Sent Incarnation Generation Quiet Wall Epoch Dir Void",
	vote.KindPromise:          "Stream Number Serial Token Slot Revoke Epoch",
	vote.KindConfirmed:        "Stream Number Serial Token",
	vote.KindInquire:          "Stream Number Serial",
	vote.KindHeld:             "Stream Number Token",
	vote.KindReleased:         "Stream Number",
	vote.KindBusy:             "Stream Number",
	vote.KindUnknown:          "Stream",
	vote.KindAck:              "Stream Sent Incarnation Generation Processed Pushed Count Hash Quiet Wall Clock Epoch Void",
	vote.KindProbe:            "Stream",
	vote.KindRefused:          "Stream Reason Epoch",
	vote.KindTokenAnswer:      "Nonce Token Counting",

	vote.KindElectorate: "Epoch Consensus",
	vote.KindPoll:       "Nonce Epoch",
	vote.KindReport:     "Nonce Epoch Token Counting Consensus",
	vote.KindPrepare:    "Version Consensus",
	vote.KindPrepared:   "Version Consensus",
	vote.KindAccept:     "Version Consensus",
	vote.KindAccepted:   "Version Consensus",
}

// full returns a message of the kind with every field set, the unused ones too.
func full(k vote.Kind) vote.Message {
	return vote.Message{
		Kind: k, Reason: vote.ReasonTTL, Won: true, Lost: true, Prefix: true, Gap: true, Revoke: true,
		Spec: vote.Spec{
			Key: "billing/nächtlich", Mode: vote.Permit, Permits: 1024, Try: true, Beside: 9, Length: time.Second, Delay: time.Minute, MinHold: time.Hour, EndsAfter: 2 * time.Hour,
		},
		Slot: 1024, Version: 3, Seq: 1 << 40, Value: []byte{0, 255}, Who: "ä", Text: "warum", End: true, Counting: true,
		Stream: 7, Number: 300, Serial: 70_000, Time: 1_700_000_000_000_000, TokenHint: vote.MaxToken, Token: 1 << 50,
		Nonce: math.MaxUint64, Sent: -5, Heard: -6, Void: true, TTL: 10 * time.Second, RTT: time.Millisecond, Incarnation: 0xfedcba9876543210, Generation: 128,
		Received: 1, Processed: 255, Pushed: 256, Count: 1 << 32, Hash: 1 << 63, Quiet: 3 * time.Second, Wall: -1 << 40, Clock: 1 << 50,
		Epoch: 5, Dir: 1 << 63, Consensus: &vote.Consensus{
			Ballot: vote.Ballot{Counter: 3, By: 7}, Promised: vote.Ballot{Counter: 4, By: 1 << 63}, Accepted: vote.Ballot{Counter: 2, By: 8},
			Electorate: vote.Electorate{
				Version: 6, Lineage: 1 << 62, MinToken: vote.MaxToken, Most: 63,
				Voters: []vote.Elector{{Name: "a", Dir: 7}, {Name: "ä", Dir: 1 << 63}}, Old: []vote.Elector{{Name: "a", Dir: 7}, {Name: "b", Dir: 8}},
			},
			Dir: 9, Writes: 1 << 40, MaxVoters: 63, Founding: true, Stuck: true, Leaving: true,
			Contacts: []vote.Elector{{Name: "a", Dir: 7}, {Name: "ä", Dir: 1 << 63}},
		},
		Entries: []vote.Entry{
			{
				Number: 1, Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Try: true, Delay: 5}, Time: -1, TokenHint: 9, Serial: 4, Yielded: 3, Slot: 7,
				Token: vote.MaxToken,
			},
			{Number: 2, Spec: vote.Spec{Key: vote.Key(strings.Repeat("x", vote.MaxKeyLen)), Mode: vote.Shared}},
		},
		Views: []vote.View{
			{
				State: vote.Delayed, Key: "k", Owner: vote.SessionID{Node: "a", Incarnation: 1 << 63}, Number: 4, Mode: vote.Permit, Permits: 5, Slot: 3, Try: true, Beside: 6,
				Token: vote.MaxToken, Time: -3, For: 1, Left: 2, Version: 9, Value: []byte("v"),
			},
			{State: vote.Waiting, Key: "k", Owner: vote.SessionID{Node: "b"}, Mode: vote.Shared},
		},
	}
}

// only returns m with its kind and the named fields only.
func only(m vote.Message, names string) vote.Message {
	out := vote.Message{Kind: m.Kind}
	for _, name := range strings.Fields(names) {
		reflect.ValueOf(&out).Elem().FieldByName(name).Set(reflect.ValueOf(m).FieldByName(name))
	}
	if m.Kind == vote.KindAnswer {
		out.Entries = slices.Clone(out.Entries)
		for i, e := range out.Entries {
			out.Entries[i] = vote.Entry{Number: e.Number, Serial: e.Serial, Slot: e.Slot, Token: e.Token}
		}
	}
	return out
}

func encode(t testing.TB, m vote.Message) []byte {
	t.Helper()
	b, err := Append(nil, &m)
	if err != nil {
		t.Fatalf("Append(%v): %v", m.Kind, err)
	}
	return b
}

func TestEveryKindCarriesExactlyItsFields(t *testing.T) {
	kinds := 0
	for k := vote.Kind(0); k < math.MaxUint8; k++ {
		if !k.Valid() {
			continue
		}
		kinds++
		t.Run(k.String(), func(t *testing.T) {
			names, ok := carried[k]
			if !ok {
				t.Fatalf("kind %v isn't in this test's table", k)
			}
			sent := full(k)
			want := only(sent, names)
			got := full(vote.KindOpen) // fields of an earlier message must not survive
			if err := Decode(encode(t, sent), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got  %+v\nwant %+v", got, want)
			}
		})
	}
	if kinds != len(carried) {
		t.Fatalf("%d kinds, the table has %d", kinds, len(carried))
	}
}

// TestWhatWasAddedLaterIsLeftOutWhereItSaysNothing shows that a frame omits the new fields while
// these are empty, as in builds without the fields, and that a frame with empty new fields is
// refused.
func TestWhatWasAddedLaterIsLeftOutWhereItSaysNothing(t *testing.T) {
	for _, k := range []vote.Kind{vote.KindOpen, vote.KindRefresh, vote.KindAnswer, vote.KindAck} {
		says, silent := full(k), full(k)
		silent.Heard, silent.Void = 0, false
		frame, long := encode(t, silent), encode(t, says)
		var got vote.Message
		if err := Decode(frame, &got); err != nil {
			t.Fatal(err)
		}
		if got.Void || got.Heard != 0 || len(frame) >= len(long) {
			t.Errorf("%v: %d bytes are read as %+v; with all fields there are %d", k, len(frame), got, len(long))
		}
		late := lateOf(k, true)
		empty := appendFields(nil, &silent, layout(k, true)|late)
		if err := Decode(empty, &got); !errors.Is(err, errMalformed) {
			t.Errorf("%v: fields that say nothing are read: %v", k, err)
		}
	}
}

// TestASpecWithoutAnEndIsAWordShorter shows that a request without an end doesn't carry the field.
func TestASpecWithoutAnEndIsAWordShorter(t *testing.T) {
	m := vote.Message{Kind: vote.KindRequest, Number: 1, Spec: vote.Spec{Key: "k", Mode: vote.Exclusive}}
	short := encode(t, m)
	m.EndsAfter = 1
	long := encode(t, m)
	if len(long) != len(short)+1 {
		t.Errorf("%d bytes with an end, %d without", len(long), len(short))
	}
	for _, c := range []struct {
		frame []byte
		ends  time.Duration
	}{{short, 0}, {long, 1}} {
		var got vote.Message
		if err := Decode(c.frame, &got); err != nil || got.EndsAfter != c.ends {
			t.Errorf("an end of %v is read as %v: %v", c.ends, got.EndsAfter, err)
		}
	}
	zero := bytes.Clone(long)
	zero[len(zero)-1] = 0 // the end comes last
	var got vote.Message
	if err := Decode(zero, &got); !errors.Is(err, errMalformed) {
		t.Errorf("a lease that ends after no time is read: %x, %v", zero, err)
	}
}

// TestADecidedMaxTTLSurvives: over a link of wire version 2 all values arrive. For wire version 1
// a message with a decided value is refused, and a node's own value is left out.
func TestADecidedMaxTTLSurvives(t *testing.T) {
	for _, k := range []vote.Kind{vote.KindElectorate, vote.KindReport, vote.KindAccept, vote.KindPrepared} {
		for _, change := range []func(e *vote.Consensus){
			func(*vote.Consensus) {},
			func(e *vote.Consensus) { e.Contacts = nil },
			func(e *vote.Consensus) { e.Electorate.Most = 0 },
			func(e *vote.Consensus) { e.Electorate.Old, e.Electorate.OldMaxTTL = nil, 0 },
			func(e *vote.Consensus) { e.Electorate.MaxTTL, e.Electorate.OldMaxTTL = 0, 0 },
			func(e *vote.Consensus) { e.MaxTTL = 0 },
		} {
			m := decided(k)
			change(m.Consensus)
			sent := only(m, carried[k])
			var got vote.Message
			if err := Decode(encode(t, sent), &got); err != nil || !reflect.DeepEqual(got, sent) {
				t.Errorf("%v: %v\ngot  %+v\nwant %+v", k, err, got.Consensus, sent.Consensus)
			}
			frame, err := appendMessage(nil, 1, &sent)
			if sent.Consensus.Electorate.MaxTTL != 0 {
				if !errors.Is(err, errMalformed) || len(frame) != 0 {
					t.Errorf("%v: wire version 1 tells of a decided value: %x, %v", k, frame, err)
				}
				continue
			}
			old := *sent.Consensus
			old.MaxTTL = 0
			if err := Decode(frame[frameHeader:], &got); err != nil || !reflect.DeepEqual(*got.Consensus, old) {
				t.Errorf("%v: over version 1: %v\ngot  %+v\nwant %+v", k, err, got.Consensus, old)
			}
		}
	}
}

// TestAMaxTTLThatCantBeIsRefused: with such a value a node would found a mesh, or report the
// value, and all other nodes would refuse the node.
func TestAMaxTTLThatCantBeIsRefused(t *testing.T) {
	for _, d := range []time.Duration{-1, 1, vote.MinTTL - 1, vote.LongestTTL + 1, math.MaxInt64} {
		m := decided(vote.KindReport)
		m.Consensus.MaxTTL = d
		if _, err := Append(nil, &m); !errors.Is(err, errMalformed) {
			t.Errorf("%v is written: %v", d, err)
		}
		e := *m.Consensus
		e.MaxTTL = vote.MinTTL
		m.Consensus = &e
		b := encode(t, m)
		bad := bytes.Replace(b, appendUint(nil, uint64(vote.MinTTL)), appendUint(nil, uint64(d)), 1)
		var got vote.Message
		if err := Decode(bad, &got); bytes.Equal(b, bad) || !errors.Is(err, errMalformed) {
			t.Errorf("%v is read: %v", d, err)
		}
	}
}

// TestFramesOfBeforeTheLimitAreRead reads frames sent by nodes before 2026-11-22, which knew
// neither a maximum number of voters nor the contacts of a voter, and this build writes the same
// bytes while both fields are empty.
func TestFramesOfBeforeTheLimitAreRead(t *testing.T) {
	electing := &vote.Consensus{
		Ballot: vote.Ballot{Counter: 3, By: 7}, Promised: vote.Ballot{Counter: 4, By: 8}, Accepted: vote.Ballot{Counter: 2, By: 9},
		Electorate: vote.Electorate{
			Version: 6, Lineage: 1 << 40, MinToken: 99, Voters: []vote.Elector{{Name: "a", Dir: 7}, {Name: "ä", Dir: 1 << 63}},
			Old: []vote.Elector{{Name: "a", Dir: 7}, {Name: "b", Dir: 8}},
		},
		Dir: 9, Writes: 1 << 33, MaxVoters: 5, Founding: true, Leaving: true,
	}
	const said = "9a9203079204089202099506cf0000010000000000639292a1610792a2c3a4cf80000000000000009292a1610792a162" +
		"0809cf000000020000000005c3c2c3"
	for frame, want := range map[string]vote.Message{
		"9628cf0004000000000000cd012cc305" + said: {
			Kind: vote.KindReport, Nonce: 300, Epoch: 5, Token: 1 << 50, Counting: true, Consensus: electing,
		},
		"932b06" + said: {Kind: vote.KindAccept, Version: 6, Consensus: electing},
	} {
		b, err := hex.DecodeString(frame)
		if err != nil {
			t.Fatal(err)
		}
		var got vote.Message
		if err := Decode(b, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v: reads %+v, want %+v", want.Kind, err, got, want)
		}
		if now := hex.EncodeToString(encode(t, want)); now != frame {
			t.Errorf("%v: writes %s, want %s", want.Kind, now, frame)
		}
	}
}

func TestAnEarlierChunkOfAnAnswerCarriesNoMoreThanVotes(t *testing.T) {
	sent := full(vote.KindAnswer)
	sent.End = false
	var got vote.Message
	if err := Decode(encode(t, sent), &got); err != nil {
		t.Fatal(err)
	}
	if want := only(sent, "Stream Entries"); !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func TestNumbersOfEverySizeSurvive(t *testing.T) {
	for _, v := range []int64{0, 1, 127, 128, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64,
		-1, -32, -33, -128, -129, -32768, -32769, math.MinInt32, math.MinInt32 - 1, math.MinInt64} {
		sent := vote.Message{Kind: vote.KindRefresh, Stream: vote.Stream(v), Sent: vote.Instant(v), Received: uint64(v)}
		var got vote.Message
		if err := Decode(encode(t, sent), &got); err != nil {
			t.Fatalf("%d: %v", v, err)
		}
		if !reflect.DeepEqual(got, sent) {
			t.Fatalf("%d became %+v", v, got)
		}
	}
}

func TestTheLargestChunkFitsAFrame(t *testing.T) {
	m := vote.Message{Kind: vote.KindSync, Stream: math.MaxUint64, End: true}
	for range vote.MaxEntries {
		m.Entries = append(m.Entries, vote.Entry{
			Spec: vote.Spec{
				Key: vote.Key(strings.Repeat("x", vote.MaxKeyLen)), Mode: vote.Permit, Permits: vote.MaxPermits, Try: true, Beside: math.MaxUint64,
				Length: math.MaxInt64, Delay: math.MaxInt64, MinHold: math.MaxInt64, EndsAfter: math.MaxInt64,
			},
			Number: math.MaxUint64, Time: math.MinInt64, TokenHint: vote.MaxToken, Slot: vote.MaxPermits,
			Serial: math.MaxUint64, Yielded: math.MaxUint64, Token: vote.MaxToken,
		})
	}
	frame, err := appendMessage(nil, WireVersion, &m)
	if err != nil {
		t.Fatal(err)
	}
	var got vote.Message
	if err := Decode(frame[frameHeader:], &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Fatal("the largest chunk came back different")
	}
	// Two more fields of nine bytes in each entry would still fit.
	if room := maxFrame - len(frame); room < vote.MaxEntries*2*9 {
		t.Fatalf("a frame has room for %d bytes more", room)
	}
}

// longView is a view entry with every field but the value at its maximum length.
func longView(value int) vote.View {
	s := vote.View{
		State: vote.Changed, Key: vote.Key(strings.Repeat("x", vote.MaxKeyLen)),
		Owner:  vote.SessionID{Node: vote.NodeID(strings.Repeat("n", vote.MaxNameLen)), Incarnation: math.MaxUint64},
		Number: math.MaxUint64, Mode: vote.Permit, Permits: vote.MaxPermits, Slot: vote.MaxPermits, Try: true, Token: vote.MaxToken,
		Time: math.MinInt64, For: math.MaxInt64, Left: math.MaxInt64, Version: math.MaxUint64,
	}
	if value > 0 {
		s.Value = bytes.Repeat([]byte{255}, value)
	}
	return s
}

func TestTheLargestChunksOfWhatIsSeenFitAFrame(t *testing.T) {
	for name, values := range map[string][]int{
		"the longest values": {vote.MaxValueLen, vote.MaxValueLen, vote.MaxValueLen, vote.MaxViewBytes - 3*vote.MaxValueLen},
		"many short values":  slices.Repeat([]int{vote.MaxViewBytes / vote.MaxViews}, vote.MaxViews),
	} {
		for _, m := range []vote.Message{
			{Kind: vote.KindQueryResult, Nonce: math.MaxUint64, End: true, Spec: vote.Spec{Permits: vote.MaxPermits}},
			{Kind: vote.KindEvents, Nonce: math.MaxUint64, Incarnation: math.MaxUint64, Seq: math.MaxUint64, Gap: true},
		} {
			bytes := 0
			for i := range vote.MaxViews {
				value := 0
				if i < len(values) {
					value = values[i]
				}
				bytes += value
				m.Views = append(m.Views, longView(value))
			}
			if bytes > vote.MaxViewBytes || bytes < vote.MaxViewBytes-vote.MaxViews {
				t.Fatalf("%s: %d bytes of values", name, bytes)
			}
			frame, err := appendMessage(nil, WireVersion, &m)
			if err != nil {
				t.Fatalf("%s, %v: %v", name, m.Kind, err)
			}
			var got vote.Message
			if err := Decode(frame[frameHeader:], &got); err != nil {
				t.Fatalf("%s, %v: %v", name, m.Kind, err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Fatalf("%s, %v: the largest chunk came back different", name, m.Kind)
			}
		}
	}
}

// A message that the peer would refuse must be an error at the sender: at the receiver the message
// would break the connection.
func TestWhatCanBeSentCanBeRead(t *testing.T) {
	change := map[string]func(*vote.Message){
		"as it is":               func(*vote.Message) {},
		"no key":                 func(m *vote.Message) { m.Key = "" },
		"no key and no prefix":   func(m *vote.Message) { m.Key, m.Prefix = "", false },
		"no value":               func(m *vote.Message) { m.Value = nil },
		"an empty value":         func(m *vote.Message) { m.Value = []byte{} },
		"the longest value":      func(m *vote.Message) { m.Value = make([]byte, vote.MaxValueLen) },
		"too long a value":       func(m *vote.Message) { m.Value = make([]byte, vote.MaxValueLen+1) },
		"no text":                func(m *vote.Message) { m.Text = "" },
		"the longest text":       func(m *vote.Message) { m.Text = strings.Repeat("x", vote.MaxTextLen) },
		"too long a text":        func(m *vote.Message) { m.Text = strings.Repeat("x", vote.MaxTextLen+1) },
		"a text that isn't UTF8": func(m *vote.Message) { m.Text = "\xff" },
		"nobody":                 func(m *vote.Message) { m.Who = "" },
		"too long a name":        func(m *vote.Message) { m.Who = vote.NodeID(strings.Repeat("x", vote.MaxNameLen+1)) },
		"no slot":                func(m *vote.Message) { m.Slot = 0 },
		"a slot beyond all":      func(m *vote.Message) { m.Slot = vote.MaxPermits + 1 },
		"permits beyond all":     func(m *vote.Message) { m.Permits = vote.MaxPermits + 1 },
		"no permits":             func(m *vote.Message) { m.Permits = 0 },
		"a reader with permits":  func(m *vote.Message) { m.Mode = vote.Shared },
		"a mode nobody speaks":   func(m *vote.Message) { m.Mode = 4 },
		"a negative length":      func(m *vote.Message) { m.Length = -1 },
		"a negative delay":       func(m *vote.Message) { m.Delay = -1 },
		"a negative hold":        func(m *vote.Message) { m.MinHold = -1 },
		"a negative end":         func(m *vote.Message) { m.EndsAfter = -1 },
		"a negative echo":        func(m *vote.Message) { m.Sent = math.MinInt64 },
		"nothing seen":           func(m *vote.Message) { m.Views = nil },
		"too much seen":          func(m *vote.Message) { m.Views = make([]vote.View, vote.MaxViews+1) },
		"a sight of nobody":      func(m *vote.Message) { m.Views = slices.Clone(m.Views); m.Views[0].Owner.Node = "" },
		"a sight of no key":      func(m *vote.Message) { m.Views = slices.Clone(m.Views); m.Views[0].Key = "" },
		"a sight of nothing":     func(m *vote.Message) { m.Views = slices.Clone(m.Views); m.Views[0].State = 0 },
		"a sight of no mode":     func(m *vote.Message) { m.Views = slices.Clone(m.Views); m.Views[0].Mode = 0 },
		"a sight in the future":  func(m *vote.Message) { m.Views = slices.Clone(m.Views); m.Views[0].For = -1 },
		"a sight that is over":   func(m *vote.Message) { m.Views = slices.Clone(m.Views); m.Views[0].Left = -1 },
		"an entry's slot":        func(m *vote.Message) { m.Entries = slices.Clone(m.Entries); m.Entries[0].Slot = vote.MaxPermits + 1 },
		"an entry's permits":     func(m *vote.Message) { m.Entries = slices.Clone(m.Entries); m.Entries[0].Permits = 1 },
		"no end":                 func(m *vote.Message) { m.End = false },
	}
	for k := range carried {
		for name, f := range change {
			m := full(k)
			f(&m)
			frame, err := Append(nil, &m)
			if err != nil {
				if !errors.Is(err, errMalformed) {
					t.Errorf("%v, %s: error of another sort: %v", k, name, err)
				}
				continue
			}
			var got vote.Message
			if err := Decode(frame, &got); err != nil {
				t.Errorf("%v, %s: sent, and can't be read: %v", k, name, err)
				continue
			}
			if again := encode(t, got); !bytes.Equal(again, frame) {
				t.Errorf("%v, %s: read, and sent otherwise: %x, %x", k, name, frame, again)
			}
		}
	}
}

func TestOutgoingMessagesBeyondALimitAreErrors(t *testing.T) {
	request, sync := full(vote.KindRequest), full(vote.KindSync)
	change := func(m vote.Message, f func(*vote.Message)) vote.Message {
		m.Entries = slices.Clone(m.Entries)
		f(&m)
		return m
	}
	tests := []struct {
		name string
		m    vote.Message
	}{
		{"no kind", vote.Message{}},
		{"a kind nobody knows", vote.Message{Kind: 200}},
		{"an empty key", change(request, func(m *vote.Message) { m.Key = "" })},
		{"a key too long", change(request, func(m *vote.Message) { m.Key = vote.Key(strings.Repeat("x", vote.MaxKeyLen+1)) })},
		{"a key that isn't UTF-8", change(request, func(m *vote.Message) { m.Key = "\xff" })},
		{"a mode nobody speaks", change(request, func(m *vote.Message) { m.Mode = 2 })},
		{"no mode", change(request, func(m *vote.Message) { m.Mode = 0 })},
		{"a hint beyond 63 bits", change(request, func(m *vote.Message) { m.TokenHint = vote.MaxToken + 1 })},
		{"a token beyond 63 bits", change(full(vote.KindConfirm), func(m *vote.Message) { m.Token = vote.MaxToken + 1 })},
		{"an unknown reason", change(full(vote.KindRefused), func(m *vote.Message) { m.Reason = 99 })},
		{"a negative TTL", change(full(vote.KindOpen), func(m *vote.Message) { m.TTL = -1 })},
		{"a negative round trip", change(full(vote.KindRefresh), func(m *vote.Message) { m.RTT = -1 })},
		{"a negative quiet time", change(full(vote.KindAck), func(m *vote.Message) { m.Quiet = -1 })},
		{"too many entries", change(sync, func(m *vote.Message) { m.Entries = make([]vote.Entry, vote.MaxEntries+1) })},
		{"an entry without a key", change(sync, func(m *vote.Message) { m.Entries[1].Key = "" })},
		{"an entry's hint beyond 63 bits", change(sync, func(m *vote.Message) { m.Entries[1].TokenHint = vote.MaxToken + 1 })},
		{"an entry's token beyond 63 bits", change(sync, func(m *vote.Message) { m.Entries[1].Token = vote.MaxToken + 1 })},
		{"an entry without a mode", change(sync, func(m *vote.Message) { m.Entries[1].Mode = 0 })},
		{"a vote's token beyond 63 bits", change(full(vote.KindAnswer), func(m *vote.Message) { m.Entries[0].Token = vote.MaxToken + 1 })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Append([]byte("before"), &tt.m)
			if !errors.Is(err, errMalformed) {
				t.Fatalf("error %v", err)
			}
			if string(got) != "before" {
				t.Fatalf("dst is %q afterwards", got)
			}
		})
	}
}

// pack encodes with the library's own encoder, so that decoding isn't tested against our own
// encoding only.
func pack(t testing.TB, values ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	if err := enc.Encode(values); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// specOf is a request spec as encoded by the library: Key Mode Try Permits Beside Length Delay
// MinHold.
func specOf(key, mode any) []any { return []any{key, mode, false, 0, 0, 7, 0, 0} }

func TestDecodeReadsWhatTheLibraryWrites(t *testing.T) {
	frame := pack(t, int(vote.KindRequest), uint64(3), 17, int64(-5), 100, 200, specOf("key", 1))
	// Request: Stream Number Time TokenHint Spec; so 200 is in the place of the spec.
	var m vote.Message
	if err := Decode(frame, &m); err == nil {
		t.Fatal("a word too many was taken")
	}
	frame = pack(t, int(vote.KindRequest), uint64(3), 17, int64(-5), 100, specOf("key", 1))
	if err := Decode(frame, &m); err != nil {
		t.Fatal(err)
	}
	want := vote.Message{
		Kind: vote.KindRequest, Stream: 3, Number: 17, Time: -5, TokenHint: 100, Spec: vote.Spec{Key: "key", Mode: vote.Exclusive, Length: 7},
	}
	if !reflect.DeepEqual(m, want) {
		t.Fatalf("got %+v", m)
	}
}

func TestIncomingBytesBeyondALimitAreErrors(t *testing.T) {
	const request, sync, answer = int(vote.KindRequest), int(vote.KindSync), int(vote.KindAnswer)
	entry := func(key any, hint, mode, token any) []any {
		return []any{specOf(key, mode), 1, 0, hint, 0, 0, 0, token}
	}
	many := make([]any, vote.MaxEntries+1)
	for i := range many {
		many[i] = entry("k", 1, 1, 1)
	}
	tests := []struct {
		name  string
		frame []byte
	}{
		{"nothing", nil},
		{"a lone number", []byte{1}},
		{"an empty array", []byte{0x90}},
		{"nil for the array", []byte{0xc0}},
		{"a map", []byte{0x81, 1, 1}},
		{"a huge array", []byte{0xdd, 0xff, 0xff, 0xff, 0xff}},
		{"a large array of nothing", []byte{0xdc, 0xff, 0xff}},
		{"kind zero", pack(t, 0, 1)},
		{"a kind of a later version", pack(t, 100, 1)},
		{"a kind that is nil", []byte{0x92, 0xc0, 1}},
		{"a kind below zero", []byte{0x92, 0xff, 1}},
		{"a kind beyond a byte", pack(t, 258, 1)},
		{"a word too few", pack(t, int(vote.KindRelease), 1)},
		{"a word too many", pack(t, int(vote.KindRelease), 1, 2, 0, false, 3)},
		{"bytes behind the message", append(pack(t, int(vote.KindRelease), 1, 2, 0, false), 0)},
		{"a stream that is nil", []byte{0x92, byte(vote.KindProbe), 0xc0}},
		{"a stream below zero", pack(t, int(vote.KindProbe), -1)},
		{"a stream that is a string", pack(t, int(vote.KindProbe), "1")},
		{"a float", pack(t, int(vote.KindProbe), 1.5)},
		{"a nested array", pack(t, int(vote.KindProbe), []any{[]any{1}})},
		{"an empty key", pack(t, request, 1, 1, 0, 0, specOf("", 1))},
		{"a key too long", pack(t, request, 1, 1, 0, 0, specOf(strings.Repeat("x", vote.MaxKeyLen+1), 1))},
		{"a key that isn't UTF-8", pack(t, request, 1, 1, 0, 0, specOf("\xff\xfe", 1))},
		{"a key that is nil", pack(t, request, 1, 1, 0, 0, specOf(nil, 1))},
		{"a key that is bytes", pack(t, request, 1, 1, 0, 0, specOf([]byte("key"), 1))},
		{"a key longer than the frame", []byte{0x96, byte(request), 1, 1, 0, 0, 0x98, 0xda, 0x02, 0x00, 'x'}},
		{"a key of four gigabytes", []byte{0x96, byte(request), 1, 1, 0, 0, 0x98, 0xdb, 0xff, 0xff, 0xff, 0xff}},
		{"a time beyond 63 bits", pack(t, request, 1, 1, uint64(1<<63), 0, specOf("k", 1))},
		{"a hint beyond 63 bits", pack(t, request, 1, 1, 0, uint64(1<<63), specOf("k", 1))},
		{"a mode nobody speaks", pack(t, request, 1, 1, 0, 0, specOf("k", 4))},
		{"a mode that wraps round to a known one", pack(t, request, 1, 1, 0, 0, specOf("k", 257))},
		{"permits of a lock", pack(t, request, 1, 1, 0, 0, []any{"k", 1, false, 3, 0, 0, 0, 0})},
		{"a semaphore without permits", pack(t, request, 1, 1, 0, 0, []any{"k", 3, false, 0, 0, 0, 0, 0})},
		{"too many permits", pack(t, request, 1, 1, 0, 0, []any{"k", 3, false, 1025, 0, 0, 0, 0})},
		{"a spec of too few words", pack(t, request, 1, 1, 0, 0, []any{"k", 1, false, 0, 0, 0, 0})},
		{"a negative delay", pack(t, request, 1, 1, 0, 0, []any{"k", 1, false, 0, 0, 0, -1, 0})},
		{"a value too long", pack(t, int(vote.KindSetValue), 1, 1, 1, make([]byte, vote.MaxValueLen+1))},
		{"a value that is a string", pack(t, int(vote.KindSetValue), 1, 1, 1, "v")},
		{"a text too long", pack(t, int(vote.KindRevokeForRequest), 1, 1, strings.Repeat("x", vote.MaxTextLen+1))},
		{"a slot beyond all permits", pack(t, int(vote.KindYield), 1, 1, 1, 1025)},
		{"a watch of nothing that isn't all", pack(t, int(vote.KindWatch), false, "", false, 1, 1, 1)},
		{"something that is never seen", pack(t, int(vote.KindQueryResult), true, 0, false, 1, 0, []any{[]any{99, "k", "a", 1, 1, 1, 0, 0, false, 0, 1, 0, 0, 0, 0, []byte{}}})},
		{"a sight of nobody", pack(t, int(vote.KindQueryResult), true, 0, false, 1, 0, []any{[]any{1, "k", "", 1, 1, 1, 0, 0, false, 0, 1, 0, 0, 0, 0, []byte{}}})},
		{"a number for a bool", pack(t, request, 1, 1, 0, 0, []any{"k", 1, 1, 0, 0, 0, 0, 0})},
		{"nil for a bool", pack(t, request, 1, 1, 0, 0, []any{"k", 1, nil, 0, 0, 0, 0, 0})},
		{"a token beyond 63 bits", pack(t, int(vote.KindPromise), 1, 1, 1, uint64(1<<63), 0, false)},
		{"an unknown reason", pack(t, int(vote.KindRefused), 1, 77)},
		{"a negative TTL", pack(t, int(vote.KindOpen), 1, -1, 0, 0)},
		{"a TTL beyond 63 bits", pack(t, int(vote.KindOpen), 1, uint64(1<<63), 0, 0)},
		{"a negative round trip", pack(t, int(vote.KindOpen), 1, 1, -1, 0)},
		{"a negative count", pack(t, int(vote.KindAck), 1, 0, 1, 1, 1, 1, -1, 1, 0, 0)},
		{"too many entries", pack(t, sync, 1, true, many)},
		{"entries that are nil", pack(t, sync, 1, true, nil)},
		{"more entries than bytes", []byte{0x94, byte(sync), 1, 0xc3, 0xdc, 0, 100, 0x99}},
		{"an entry of too few words", pack(t, sync, 1, true, []any{[]any{1, "k"}})},
		{"an entry of too many words", pack(t, sync, 1, true, []any{append(entry("k", 1, 1, 1), 1)})},
		{"an entry that is no array", pack(t, sync, 1, true, []any{1, 1, 1})},
		{"an entry without a key", pack(t, sync, 1, true, []any{entry("", 1, 1, 1)})},
		{"an entry's hint beyond 63 bits", pack(t, sync, 1, true, []any{entry("k", uint64(1<<63), 1, 1)})},
		{"an entry without a mode", pack(t, sync, 1, true, []any{entry("k", 1, 0, 1)})},
		{"an entry's token beyond 63 bits", pack(t, sync, 1, true, []any{entry("k", 1, 1, uint64(1<<63))})},
		{"a short answer that claims to be the last", pack(t, answer, 1, true, []any{})},
		{"a long answer that claims more to come", pack(t, answer, 1, false, 1, 1, 1, 0, 0, []any{})},
		{"a vote's token beyond 63 bits", pack(t, answer, 1, false, []any{[]any{1, 1, 0, uint64(1 << 63)}})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := full(vote.KindOpen)
			if err := Decode(tt.frame, &m); !errors.Is(err, errMalformed) {
				t.Fatalf("error %v, message %+v", err, m)
			}
			if !reflect.DeepEqual(m, vote.Message{}) {
				t.Fatalf("left behind: %+v", m)
			}
		})
	}
}

func TestATruncatedMessageIsAnError(t *testing.T) {
	for k := range carried {
		frame := encode(t, full(k))
		for n := range frame {
			var m vote.Message
			if err := Decode(frame[:n], &m); !errors.Is(err, errMalformed) {
				t.Fatalf("%v cut to %d of %d bytes: error %v", k, n, len(frame), err)
			}
		}
	}
}

func TestSteadyKindsHardlyAllocate(t *testing.T) {
	buf := make([]byte, 0, 1024)
	for _, k := range steady {
		sent := full(k)
		if n := testing.AllocsPerRun(200, func() { buf, _ = Append(buf[:0], &sent) }); n != 0 {
			t.Errorf("encoding %v allocates %v times", k, n)
		}
		most := 0.0
		if k == vote.KindRequest {
			most = 1
		}
		var got vote.Message
		if n := testing.AllocsPerRun(200, func() { _ = Decode(buf, &got) }); n > most { // the parser stays on the stack
			t.Errorf("decoding %v allocates %v times", k, n)
		}
	}
}

// steady are the kinds of the steady path.
var steady = []vote.Kind{vote.KindRequest, vote.KindPromise, vote.KindConfirm, vote.KindRelease, vote.KindReleased,
	vote.KindRefresh, vote.KindAck}

func FuzzDecode(f *testing.F) {
	for k := range carried {
		f.Add(encode(f, full(k)))
	}
	for _, m := range []vote.Message{
		{Kind: vote.KindWatch, Prefix: true},
		{Kind: vote.KindSetValue, Value: make([]byte, 300)},
		{Kind: vote.KindQueryResult, End: true},
		{Kind: vote.KindQueryResult, Views: []vote.View{longView(256), longView(0)}},
		{Kind: vote.KindEvents, Gap: true},
		{Kind: vote.KindContended, Who: "n", Revoke: true},
		{Kind: vote.KindAnswer, Entries: []vote.Entry{{Number: 1, Serial: 2, Slot: vote.MaxPermits}}},
	} {
		f.Add(encode(f, m))
	}
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add(bytes.Repeat([]byte{0x91}, 1000))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var m, again vote.Message
		if err := Decode(frame, &m); err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatalf("error of another sort: %v", err)
			}
			return
		}
		b, err := Append(nil, &m)
		if err != nil {
			t.Fatalf("decoded but can't be encoded: %+v: %v", m, err)
		}
		if err := Decode(b, &again); err != nil {
			t.Fatalf("encoded but can't be decoded: %v", err)
		}
		if !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v became %+v", m, again)
		}
		if c, err := Append(nil, &again); err != nil || !bytes.Equal(b, c) {
			t.Fatalf("%x became %x (%v)", b, c, err)
		}
	})
}

// usual is a typical message: the key of a job, numbers as after a while, times of today.
func usual(k vote.Kind) vote.Message {
	const now = 1_800_000_000_000_000
	m := vote.Message{
		Kind: k, Stream: 3, Number: 70_000, Serial: 150_000, Time: now, TokenHint: now, Token: now + 16,
		Spec: vote.Spec{Key: "billing/nightly/invoice-00017", Mode: vote.Exclusive},
		Sent: 3_600_000_000_000, RTT: 500 * time.Microsecond, Received: 150_000, Processed: 210_000, Pushed: 150_000, Count: 12, Hash: 0x9e3779b97f4a7c15,
		Incarnation: 0xbf58476d1ce4e5b9, Generation: 5, Wall: now, Clock: 3_600_000_000_000,
	}
	m.Won = k == vote.KindConfirm
	return m
}

func BenchmarkAppend(b *testing.B) {
	for _, k := range steady {
		b.Run(k.String(), func(b *testing.B) {
			m, buf := usual(k), make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = Append(buf[:0], &m)
			}
		})
	}
}

// BenchmarkDecode decodes into a reused message. A request's key is the only allocation.
func BenchmarkDecode(b *testing.B) {
	for _, k := range steady {
		b.Run(k.String(), func(b *testing.B) {
			m := usual(k)
			frame := encode(b, m)
			b.ReportAllocs()
			for b.Loop() {
				if err := Decode(frame, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	// A single kind flatters: the processor learns the path. Here the kinds take turns, as on a
	// link.
	b.Run("turns", func(b *testing.B) {
		var frames [][]byte
		for _, k := range steady {
			frames = append(frames, encode(b, usual(k)))
		}
		var m vote.Message
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := Decode(frames[i%len(frames)], &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
