package lockmesh

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// good returns a configuration without a fault. Rows of the table below spoil the configuration.
func good() Config {
	return Config{Name: "a", Bind: "127.0.0.1:0", Voters: []string{"a", "b", "c"}}
}

func TestValidate(t *testing.T) {
	many := make([]string, MaxVoters+1)
	for i := range many {
		many[i] = strings.Repeat("v", i+1)
	}
	secret := []byte("of another test, 16")
	for _, row := range []struct {
		name string
		edit func(*Config)
		says []string // empty: the configuration is valid
	}{
		{"the least there may be", func(*Config) {}, nil},
		{"a default name", func(c *Config) { c.Name = "" }, nil},
		{"all set", func(c *Config) {
			*c = Config{
				Name: "a", Mesh: "m", Bind: "0.0.0.0:7950", Advertise: "a.example:7950", Peers: []string{"b.example:7950", "[::1]:1"},
				Voters: []string{"a"}, MaxTTL: time.Minute, TTL: time.Second, Secret: secret,
			}
		}, nil},
		{"an even number of voters", func(c *Config) { c.Voters = []string{"a", "b"} }, nil},
		{"a name that is no voter", func(c *Config) { c.Name = "z" }, nil},
		{"localhost", func(c *Config) { c.Bind = "localhost:0" }, nil},
		{"the loopback of IPv6", func(c *Config) { c.Bind = "[::1]:0" }, nil},
		{"the least TTL", func(c *Config) { c.MaxTTL, c.TTL = MinTTL, MinTTL }, nil},
		{"the largest TTL", func(c *Config) { c.MaxTTL = LongestTTL }, nil},
		{"insecure on purpose", func(c *Config) { c.Bind, c.Insecure = ":7950", true }, nil},
		{"a secret on an open address", func(c *Config) { c.Bind, c.Secret = "", secret }, nil},

		{"a name with a space", func(c *Config) { c.Name = "a b" }, []string{`Name: the name "a b" has spaces`}},
		{"a name with a control character", func(c *Config) { c.Name = "a\x00" }, []string{"Name: the name", "printed"}},
		{"a name that isn't UTF-8", func(c *Config) { c.Name = "\xff" }, []string{"Name:", "isn't UTF-8"}},
		{"a long name", func(c *Config) { c.Name = strings.Repeat("n", 129) }, []string{"Name:", "129 bytes, more than 128"}},
		{"a bad mesh name", func(c *Config) { c.Mesh = "\n" }, []string{"Mesh:"}},
		{"Bind without a port", func(c *Config) { c.Bind = "127.0.0.1" }, []string{`Bind: "127.0.0.1" is not host:port`}},
		{"Bind with a port out of range", func(c *Config) { c.Bind = "127.0.0.1:65536" }, []string{"Bind: the port"}},
		{"Advertise without a port", func(c *Config) { c.Advertise = "localhost" }, nil},
		{"Advertise without a port, IPv6", func(c *Config) { c.Advertise = "::1" }, nil},
		{"Advertise nowhere", func(c *Config) { c.Advertise = "0.0.0.0:7950" }, []string{`Advertise: "0.0.0.0:7950" is an address to listen on, not to dial`}},
		{"Advertise with an unknown port", func(c *Config) { c.Advertise = "127.0.0.1:0" }, []string{"Advertise: the port"}},
		{"Advertise without a host", func(c *Config) { c.Advertise = ":7950" }, []string{"Advertise:", "no host"}},
		{"a peer without a port", func(c *Config) { c.Peers = []string{"b:1", "c"} }, []string{`Peers: "c" is not host:port`}},
		{"a peer without a host", func(c *Config) { c.Peers = []string{":1"} }, []string{"Peers:", "no host"}},
		{"a peer at port 0", func(c *Config) { c.Peers = []string{"b:0"} }, []string{"Peers: the port"}},
		{"a peer everywhere", func(c *Config) { c.Peers = []string{"b:1", "0.0.0.0:7950"} }, []string{`Peers: "0.0.0.0:7950" is an address to listen on, not to dial`}},
		{"a peer everywhere, IPv6", func(c *Config) { c.Peers = []string{"[::]:7950"} }, []string{`Peers: "[::]:7950" is an address to listen on, not to dial`}},
		{"voters that weren't split", func(c *Config) { c.Voters = []string{"a,b,c"} }, []string{`Voters: the name "a,b,c" has a comma`, "give each name by itself"}},
		{"a name with an accent", func(c *Config) { c.Name = "caf\u00e9" }, nil},
		{"a name with an accent by itself", func(c *Config) { c.Name = "cafe\u0301" }, []string{`Name: the name "cafe\u0301" looks like "caf\u00e9"`}},
		{"a voter with an accent by itself", func(c *Config) { c.Voters = []string{"a", "cafe\u0301"} }, []string{"Voters:", "NFC"}},
		{"a name with marks that belong to it", func(c *Config) { c.Name = "\u0926\u093f\u0932\u094d\u0932\u0940" }, nil},
		{"too many peers", func(c *Config) { c.Peers = make([]string, MaxPeers+1) }, []string{"Peers: there are 257"}},
		{"no voters", func(c *Config) { c.Voters = nil }, []string{"Voters: the list is empty"}},
		{"a voter twice", func(c *Config) { c.Voters = []string{"a", "b", "a"} }, []string{`Voters: "a" is named 2 times`, "of 3 voters a majority is 2, and there are only 2"}},
		{"no majority of processes", func(c *Config) { c.Voters = []string{"a", "a", "a", "a"} }, []string{"of 4 voters a majority is 3, and there are only 1"}},
		{"a voter without a name", func(c *Config) { c.Voters = []string{"a", ""} }, []string{"Voters: a name is empty"}},
		{"too many voters", func(c *Config) { c.Voters = many }, []string{"Voters: 64 are named, at most 63"}},
		{"a state directory", func(c *Config) { c.StateDir = "/var/lib/lockmesh" }, nil},
		{"a founder", func(c *Config) { c.StateDir, c.Bootstrap, c.MaxVoters = "state", true, 5 }, nil},
		{"the largest electorate", func(c *Config) { c.StateDir, c.MaxVoters = "state", MaxVoters }, nil},
		{"a directory that can't be", func(c *Config) { c.StateDir = "a\x00b" }, []string{"StateDir:", "zero byte"}},
		{"to found without a directory", func(c *Config) { c.Bootstrap = true }, []string{"Bootstrap:", "StateDir is empty", "leave Bootstrap out"}},
		{"a founder that is none", func(c *Config) { c.Name, c.StateDir, c.Bootstrap = "z", "state", true }, []string{`Bootstrap: this node, "z", isn't among the founders`}},
		{"so many voters without a directory", func(c *Config) { c.MaxVoters = 5 }, []string{"MaxVoters:", "StateDir is empty", "leave MaxVoters out"}},
		{"a negative number of voters", func(c *Config) { c.MaxVoters = -1 }, []string{"MaxVoters: -1 is negative"}},
		{"too large an electorate", func(c *Config) { c.StateDir, c.MaxVoters = "state", 64 }, []string{"MaxVoters: 64 is more than 63"}},
		{"a negative MaxTTL", func(c *Config) { c.MaxTTL = -1 }, []string{"MaxTTL: -1ns is negative"}},
		{"a tiny MaxTTL", func(c *Config) { c.MaxTTL = MinTTL - 1 }, []string{"MaxTTL:", "less than 200ms"}},
		{"an endless MaxTTL", func(c *Config) { c.MaxTTL = math.MaxInt64 }, []string{"MaxTTL:", "more than 24h"}},
		{"a negative TTL", func(c *Config) { c.TTL = -time.Second }, []string{"TTL: -1s is negative"}},
		{"a tiny TTL", func(c *Config) { c.TTL = 1 }, []string{"TTL: 1ns is less than 200ms"}},
		{"a TTL above MaxTTL", func(c *Config) { c.TTL = DefaultMaxTTL + 1 }, []string{"TTL:", "more than MaxTTL, which is 10s"}},
		{"an endless TTL", func(c *Config) { c.TTL = math.MaxInt64 }, []string{"TTL:", "more than 24h"}},
		{"a short secret", func(c *Config) { c.Secret = secret[:15] }, []string{"Secret: it has 15 bytes, fewer than 16"}},
		{"no secret on an open address", func(c *Config) { c.Bind = ":7950" }, []string{`Secret: it is empty while Bind ":7950" can be reached`}},
		{"no secret on the default address", func(c *Config) { c.Bind = "" }, []string{`Secret: it is empty while Bind ":7950" can be reached`}},
		{"no secret on an advertised address", func(c *Config) { c.Advertise = "10.0.0.1:7950" }, []string{`while Advertise "10.0.0.1:7950" can be reached`}},
		{"everything at once", func(c *Config) {
			*c = Config{Name: " ", Mesh: " ", Bind: "x", Advertise: ":x", Peers: []string{"x"}, Bootstrap: true, MaxVoters: 64, MaxTTL: 1, TTL: 2, Secret: []byte("x")}
		}, []string{"Name:", "Mesh:", "Bind:", "Advertise:", "Peers:", "Voters:", "Bootstrap:", "MaxVoters:", "MaxTTL:", "\nlockmesh: the configuration is wrong: TTL:", "Secret:"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := good()
			row.edit(&c)
			err := c.Validate()
			if len(row.says) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("%v is not ErrConfig", err)
			}
			for _, text := range row.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q isn't in\n%v", text, err)
				}
			}
			if _, joinErr := Join(t.Context(), c); joinErr == nil || joinErr.Error() != err.Error() {
				t.Errorf("Join says %v", joinErr)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	c, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if c.Name != host || c.Mesh != "default" || c.Bind != ":7950" || c.MaxTTL != 10*time.Second || c.TTL != c.MaxTTL || c.Logger == nil || c.Clock != nil {
		t.Errorf("%+v", c)
	}
	if c, _ := (Config{MaxTTL: time.Minute}).withDefaults(); c.TTL != time.Minute {
		t.Errorf("TTL is %v with a MaxTTL of a minute", c.TTL)
	}
	if MinTTL > 500*time.Millisecond {
		t.Errorf("MinTTL is %v", MinTTL)
	}
}

func TestAConfigurationIsTheCallersAgainAfterJoin(t *testing.T) {
	c := good()
	c.Secret = []byte("of another test, 16")
	own, _ := c.withDefaults()
	c.Voters[0], c.Secret[0] = "x", 'x'
	if own.Voters[0] != "a" || own.Secret[0] != 'o' {
		t.Error("the caller's slices are shared")
	}
}
