package transport

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

var update = flag.Bool("update", false, "write testdata/wire.txt anew: only for a deliberate change of the wire format")

// decided returns a message of a kind about electorates as in wire version 2: the electorate has
// decided a maximum TTL.
func decided(k vote.Kind) vote.Message {
	m := full(k)
	m.Consensus.MaxTTL, m.Consensus.Electorate.MaxTTL, m.Consensus.Electorate.OldMaxTTL = 30*time.Second, 30*time.Second, 10*time.Second
	return m
}

// TestTheBytesOnTheWireStayTheSame compares the encoding of a message of each kind with
// testdata/wire.txt: once with every field of wire version 1, once with the fields of version 2,
// and once with every field empty; then the messages of the handshake. Nodes of two versions
// exchange messages during a rolling update, so only a deliberate change of the format may change
// the file, with a line in CHANGELOG.md. The file names kinds by number: renaming a kind changes
// nothing.
func TestTheBytesOnTheWireStayTheSame(t *testing.T) {
	const file = "testdata/wire.txt"
	var b strings.Builder
	for k := vote.Kind(0); k < math.MaxUint8; k++ {
		if !k.Valid() {
			continue
		}
		fmt.Fprintf(&b, "%d full %x\n", k, encode(t, full(k)))
		if k.IsConsensus() && k != vote.KindPoll {
			fmt.Fprintf(&b, "%d decided %x\n", k, encode(t, decided(k)))
		}
		empty, err := Append(nil, &vote.Message{Kind: k})
		if err != nil {
			fmt.Fprintf(&b, "%d empty refused\n", k)
			continue
		}
		fmt.Fprintf(&b, "%d empty %x\n", k, empty)
	}
	h := hello{offer: offerOf("a"), role: roleProbe, want: "b", account: vote.Account{
		Standing: vote.StandingLeaving, Counted: 5 * time.Second, Up: time.Hour, Addr: "host:7950", LongestTTL: time.Minute,
	}}
	h.low, h.high = 1, 2
	h.terms.Dynamic, h.terms.Converting = true, true
	h.terms.Birth = vote.Birth{Expect: 5, MinVoters: 3, Register: true}
	r := refusal{self: h.self, reason: vote.ReasonTerms, text: "because"}
	fmt.Fprintf(&b, "hello %x\n", appendHello(nil, &h))
	fmt.Fprintf(&b, "welcome %x\n", appendWelcome(nil, &welcome{offer: h.offer, account: h.account, version: 7}))
	fmt.Fprintf(&b, "refusal %x\n", appendRefusal(nil, &r))
	r.terms, r.account = h.terms.common(), h.account
	fmt.Fprintf(&b, "refusal with terms %x\n", appendRefusal(nil, &r))
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, lines := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	if len(got) != len(lines) {
		t.Fatalf("%d lines, and %s has %d: -update adds the bytes of a new kind", len(got), file, len(lines))
	}
	for i, line := range lines {
		if got[i] != line {
			t.Errorf("the bytes of a message have changed:\ngot  %s\nwant %s", got[i], line)
		}
	}
}
