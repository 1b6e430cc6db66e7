package transport

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// listens records the events of a test's memberlist.
type listens struct {
	joined chan string
	heard  chan string
}

func (l *listens) NotifyJoin(n *memberlist.Node)     { l.joined <- n.Name }
func (l *listens) NotifyLeave(*memberlist.Node)      {}
func (l *listens) NotifyUpdate(*memberlist.Node)     {}
func (l *listens) NodeMeta(int) []byte               { return nil }
func (l *listens) NotifyMsg(b []byte)                { l.heard <- string(b) }
func (l *listens) GetBroadcasts(_, _ int) [][]byte   { return nil }
func (l *listens) LocalState(bool) []byte            { return nil }
func (l *listens) MergeRemoteState(_ []byte, _ bool) {}

func gossipOver(t *testing.T, s *side, label string) (*memberlist.Memberlist, *listens) {
	t.Helper()
	l := &listens{make(chan string, 100), make(chan string, 100)}
	cfg := memberlist.DefaultLocalConfig()
	cfg.EnableCompression = false // as in package member
	cfg.Name = string(s.own.self.Node)
	cfg.Transport = s.Gossip()
	if keys := s.GossipKeys(); keys != nil {
		cfg.SecretKey = keys[0]
	}
	cfg.Label = label
	cfg.Events, cfg.Delegate = l, l
	cfg.AdvertiseAddr, cfg.AdvertisePort = "", 0
	cfg.LogOutput = io.Discard
	m, err := memberlist.Create(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Shutdown() })
	return m, l
}

func TestMemberlistLivesOnThePort(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			a, b := open(t, config("a", mode.secret)), open(t, config("b", mode.secret))
			atA, _ := pair(t, a, b) // lock streams share the port
			ma, la := gossipOver(t, a, "default")
			mb, lb := gossipOver(t, b, "default")
			if n, err := ma.Join([]string{b.at}); n != 1 || err != nil {
				t.Fatalf("joined %d: %v", n, err)
			}
			for _, l := range []*listens{la, lb} {
				seen := map[string]bool{}
				for !seen["a"] || !seen["b"] {
					seen[get(t, l.joined, "a member")] = true
				}
			}
			var toB *memberlist.Node
			for _, n := range ma.Members() {
				if n.Name == "b" {
					toB = n
				}
			}
			if toB.Address() != b.AdvertiseAddr() {
				t.Fatalf("b is known at %s, and advertises %s", toB.Address(), b.AdvertiseAddr())
			}
			if err := ma.SendReliable(toB, []byte("by stream")); err != nil {
				t.Fatal(err)
			}
			if got := get(t, lb.heard, "a stream"); got != "by stream" {
				t.Fatalf("got %q", got)
			}
			if err := ma.SendBestEffort(toB, []byte("by packet")); err != nil {
				t.Fatal(err)
			}
			if got := get(t, lb.heard, "a packet"); got != "by packet" {
				t.Fatalf("got %q", got)
			}
			// a stream is counted just after its hand-over to memberlist
			testwait.Until(t, "packets and streams are counted", func() bool {
				sa, sb := a.Stats(), b.Stats()
				return sa.SentPackets > 0 && sb.ReceivedPackets > 0 && sb.GossipStreams >= 2
			})
			// The end of gossip isn't the end of the links.
			if err := ma.Shutdown(); err != nil {
				t.Fatal(err)
			}
			if err := mb.Shutdown(); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Gossip().DialTimeout(b.at, time.Second); err == nil {
				t.Fatal("gossip goes on after its shutdown")
			}
			a.Send(atA, &vote.Message{Kind: vote.KindProbeReply, Stream: 9})
			if got := get(t, b.received, "a message"); got.m.Stream != 9 {
				t.Fatalf("got %+v", got.m)
			}
			pair(t, b, a)
		})
	}
}

func TestStreamsOfGossipCarryBytesBothWays(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			a, b := open(t, config("a", mode.secret)), open(t, config("b", mode.secret))
			out, err := a.Gossip().DialTimeout(b.at, patience)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			in := get(t, b.Gossip().StreamCh(), "the stream")
			defer in.Close()
			for _, d := range [][2]net.Conn{{out, in}, {in, out}} {
				const n = 4 * earlyBytes // more than a stranger may send
				go func() { _, _ = d[0].Write(make([]byte, n)) }()
				if _, err := io.ReadFull(d[1], make([]byte, n)); err != nil {
					t.Fatal(err)
				}
			}
			// Close must end streams still held by memberlist.
			_ = b.Close()
			if _, err := in.Read(make([]byte, 1)); err == nil {
				t.Fatal("the stream outlives its port")
			}
		})
	}
}

func TestTheEndOfGossipEndsItsStreams(t *testing.T) {
	a, b := open(t, config("a", secretA)), open(t, config("b", secretA))
	out, err := a.Gossip().DialTimeout(b.at, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in := get(t, b.Gossip().StreamCh(), "the stream")
	defer in.Close()
	_ = b.Gossip().Shutdown()
	_ = b.Gossip().Shutdown()
	for _, c := range []net.Conn{in, out} {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatal("a stream outlives its gossip")
		}
	}
}

func TestAStreamThatIsNotAcceptedIsDropped(t *testing.T) {
	sampled.Waits(t)
	hasty := thisBuild
	hasty.handshakeTimeout = 250 * time.Millisecond
	a, b := open(t, config("a", nil)), openBuild(t, config("b", nil), hasty)
	out, err := a.Gossip().DialTimeout(b.at, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.Read(make([]byte, 1)); err == nil {
		t.Fatal("something came")
	}
	testwait.Until(t, "it is counted", func() bool { return b.Stats().DroppedStreams == 1 })
}

func TestPacketsThatAreNotReadAreDroppedAndThePortGoesOn(t *testing.T) {
	b := open(t, config("b", nil))
	c, err := net.Dial("udp", b.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testwait.Until(t, "packets are dropped", func() bool { // the system may drop some by itself
		for range 50 {
			_, _ = c.Write([]byte("x"))
		}
		return b.Stats().DroppedPackets > 0
	})
	if s := b.Stats(); s.ReceivedPackets != maxPackets {
		t.Fatalf("counted %+v", s)
	}
	a := open(t, config("a", nil))
	pair(t, a, b)
}

func TestAPacketTooLongIsDroppedAndALongOneComesWhole(t *testing.T) {
	a, b := open(t, config("a", nil)), open(t, config("b", nil))
	for _, n := range []int{maxPacket + 1, maxPacket} {
		if _, err := a.Gossip().WriteTo(make([]byte, n), b.at); err != nil {
			t.Skip("the system sends no packet that long:", err)
		}
	}
	got := get(t, b.Gossip().PacketCh(), "the packet")
	if len(got.Buf) != maxPacket || got.From.String() != a.at || got.Timestamp.IsZero() {
		t.Fatalf("%d bytes from %v at %v", len(got.Buf), got.From, got.Timestamp)
	}
	if b.Stats().DroppedPackets != 1 {
		t.Fatalf("counted %+v", b.Stats())
	}
}

func TestTheAddressThatGossipAdvertises(t *testing.T) {
	cfg := config("a", nil)
	cfg.Advertise = "localhost:4711"
	a := open(t, cfg)
	tests := []struct {
		host string
		port int
		want string
	}{
		{"", 0, "127.0.0.1:4711"},
		{"10.1.2.3", 80, "10.1.2.3:80"},
		{"10.1.2.3", 0, fmt.Sprintf("10.1.2.3:%d", a.Addr().Port())},
	}
	for _, tt := range tests {
		ip, port, err := a.Gossip().FinalAdvertiseAddr(tt.host, tt.port)
		if got := fmt.Sprintf("%v:%d", ip, port); err != nil || got != tt.want {
			t.Errorf("%+v: got %s, error %v", tt, got, err)
		}
	}
	if _, _, err := a.Gossip().FinalAdvertiseAddr("no.such.host.invalid", 1); err == nil {
		t.Error("a host that doesn't exist was taken")
	}
}
