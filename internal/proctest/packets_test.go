package proctest

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

const noAnswer = "connected, but the handshake has no answer: packet size?"

// swallow opens a port that accepts connections and all data, and never answers. A path that drops
// long packets looks like this port to a dialer.
func swallow(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the dialer's process, which the test ends
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// Peers that accept a connection but never answer are not unknown: logs, errors and Status name
// their addresses, and the likely cause.
func TestAHandshakeWithoutAnAnswerIsSaid(t *testing.T) {
	t.Parallel()
	b, c := swallow(t), swallow(t)
	for _, s := range []struct{ name, secret string }{{"with a secret", secret}, {"without", ""}} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			a := launch(t, "a", s.secret, "-bind", "127.0.0.1:0", "-voters", "a,b,c", "-peers", b+","+c, "-max-ttl", ttl.String())
			a.reached("listening")
			a.awaitLog(noAnswer, b, c)
			a.awaitLog("a voter doesn't count", "voter=b", noAnswer)
			a.tell("trylock k")
			if text := a.awaitError("trylock", "noquorum").Text; !strings.Contains(text, noAnswer) || strings.Contains(text, "gossip has not seen the node") {
				t.Errorf("a call says: %s", text)
			}
			a.tell("status")
			voters := a.awaitEvent("status", "").Status.Electorate.Voters
			i := slices.IndexFunc(voters, func(v voterStatus) bool { return v.Name == "b" })
			if i < 0 || !strings.Contains(voters[i].Text, noAnswer) || !strings.Contains(voters[i].Text, b) {
				t.Errorf("the status says: %+v", voters)
			}
		})
	}
}
