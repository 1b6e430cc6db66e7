package transport

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestBothSocketsShareOnePort(t *testing.T) {
	for _, bind := range []string{"127.0.0.1:0", ":0", "0.0.0.0:0", "[::]:0", "localhost:0"} {
		t.Run(bind, func(t *testing.T) {
			if bind == "[::]:0" {
				l, err := net.Listen("tcp6", bind)
				if err != nil {
					t.Skip("no IPv6 here:", err)
				}
				_ = l.Close()
			}
			cfg := config("a", nil)
			cfg.Bind = bind
			p := open(t, cfg)
			udp := p.udp.LocalAddr().(*net.UDPAddr).AddrPort().Port()
			if p.Addr().Port() == 0 || p.Addr().Port() != udp {
				t.Fatalf("TCP %v, UDP %v", p.Addr().Port(), udp)
			}
			if strings.HasPrefix(bind, "0.0.0.0") && p.Addr().Addr() != netip.IPv4Unspecified() {
				t.Fatalf("bound to %v", p.Addr())
			}
			host, port, err := net.SplitHostPort(p.AdvertiseAddr())
			if a := netip.MustParseAddr(host); err != nil || a.IsUnspecified() || port == "0" {
				t.Fatalf("advertises %s", p.AdvertiseAddr())
			}
		})
	}
}

func TestABindThatIsTakenSaysSo(t *testing.T) {
	cfg := config("a", nil)
	first := open(t, cfg)
	cfg.Bind = first.at
	cfg.Handler = newWitness()
	_, err := Listen(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), first.at) || !strings.Contains(err.Error(), "taken") {
		t.Fatalf("error %v", err)
	}
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	cfg.Bind = udp.LocalAddr().String()
	if _, err := Listen(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Fatalf("with the UDP port taken: error %v", err)
	}
}

func TestBadConfigurationsAreErrors(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*Config)
		word  string
	}{
		{"no port in Bind", func(c *Config) { c.Bind = "127.0.0.1" }, "Bind"},
		{"a Bind elsewhere", func(c *Config) { c.Bind = "192.0.2.1:0" }, "192.0.2.1"},
		{"no Bind", func(c *Config) { c.Bind = "" }, "Bind"},
		{"no handler", func(c *Config) { c.Handler = nil }, "Handler"},
		{"no name", func(c *Config) { c.Self.Node = "" }, "name"},
		{"a name too long", func(c *Config) { c.Self.Node = vote.NodeID(strings.Repeat("n", vote.MaxNameLen+1)) }, "name"},
		{"no mesh", func(c *Config) { c.Terms.Mesh = "" }, "mesh"},
		{"no MaxTTL", func(c *Config) { c.Terms.MaxTTL = 0 }, "MaxTTL"},
		{"a voter without a name", func(c *Config) { c.Terms.Voters = []vote.NodeID{""} }, "voter"},
		{"too many secrets", func(c *Config) { c.Secrets = make([][]byte, MaxSecrets+1) }, "at most 3"},
		{"a short secret", func(c *Config) { c.Secrets = secrets([]byte("short")) }, "secret"},
		{"an Advertise without a host", func(c *Config) { c.Advertise = ":7950" }, "Advertise"},
		{"an Advertise with a bad port", func(c *Config) { c.Advertise = "host:port" }, "Advertise"},
		{"an Advertise that can't be dialed", func(c *Config) { c.Advertise = "0.0.0.0" }, "Advertise"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config("a", nil)
			cfg.Handler = newWitness()
			tt.spoil(&cfg)
			p, err := Listen(t.Context(), cfg)
			if err == nil {
				_ = p.Close()
				t.Fatal("it was taken")
			}
			if !strings.Contains(err.Error(), tt.word) {
				t.Fatalf("%q doesn't say %q", err, tt.word)
			}
		})
	}
}

func TestTheAdvertisedAddress(t *testing.T) {
	addrs := func(s ...string) func() []netip.Addr {
		return func() (out []netip.Addr) {
			for _, a := range s {
				out = append(out, netip.MustParseAddr(a))
			}
			return out
		}
	}
	tests := []struct {
		name, configured, bound string
		interfaces              func() []netip.Addr
		want                    string
	}{
		{"a configured host gets our port", "edge-1", "0.0.0.0:7950", addrs(), "edge-1:7950"},
		{"a configured host and port stand", "edge-1:80", "0.0.0.0:7950", addrs(), "edge-1:80"},
		{"a configured port zero is ours", "edge-1:0", "0.0.0.0:7950", addrs(), "edge-1:7950"},
		{"a configured IPv6 address", "2001:db8::1", "0.0.0.0:7950", addrs(), "[2001:db8::1]:7950"},
		{"a configured IPv6 address with port", "[2001:db8::1]:80", "0.0.0.0:7950", addrs(), "[2001:db8::1]:80"},
		{"a specific bound address", "", "127.0.0.1:7950", addrs("10.0.0.1"), "127.0.0.1:7950"},
		{"private before public", "", "0.0.0.0:7950", addrs("127.0.0.1", "8.8.8.8", "10.0.0.1", "10.0.0.2"), "10.0.0.1:7950"},
		{"public before loopback", "", "[::]:7950", addrs("127.0.0.1", "fe80::1", "8.8.8.8"), "8.8.8.8:7950"},
		{"IPv4 before IPv6", "", "[::]:7950", addrs("fd00::1", "10.0.0.1"), "10.0.0.1:7950"},
		{"IPv6 where there is nothing else", "", "[::]:7950", addrs("::1", "2001:db8::1"), "[2001:db8::1]:7950"},
		{"no IPv6 for a port of IPv4", "", "0.0.0.0:7950", addrs("fd00::1"), "127.0.0.1:7950"},
		{"loopback at last", "", "0.0.0.0:7950", addrs(), "127.0.0.1:7950"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := advertised(tt.configured, netip.MustParseAddrPort(tt.bound), tt.interfaces)
			if err != nil || got != tt.want {
				t.Fatalf("got %q, error %v", got, err)
			}
		})
	}
}

// A name server that doesn't answer holds Listen up for no longer than the context allows. (The
// test replaces the resolver of the process, so no other test runs beside this test.)
func TestLookUpsOfOwnNamesEndWithTheContext(t *testing.T) {
	was := net.DefaultResolver
	defer func() { net.DefaultResolver = was }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	for name, set := range map[string]func(*Config){
		"Bind":      func(cfg *Config) { cfg.Bind = "nowhere.invalid:0" },
		"Advertise": func(cfg *Config) { cfg.Advertise = "nowhere.invalid" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config("a", nil)
			set(&cfg)
			cfg.Handler = newWitness()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			p, err := Listen(ctx, cfg)
			if err == nil {
				t.Error(p.Close())
				t.Fatal("it listens")
			}
			if !strings.Contains(err.Error(), "nowhere.invalid") {
				t.Errorf("the error doesn't name the host: %v", err)
			}
		})
	}
}
