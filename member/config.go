package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Config is what Start needs. Fields without a comment on their zero value are required.
type Config struct {
	Self vote.SessionID // this node's name and life
	Dir  vote.Dir       // the identity of this node's state directory; zero: it has none

	// Transport carries gossip. Start takes it over: it is shut down with the group, but not when Start fails. Its Shutdown should
	// end dials under way, and an error of its WriteTo should be a *net.OpError: for any other memberlist takes the fault to be
	// here and does not suspect the peer.
	Transport memberlist.Transport

	// AdvertiseHost and AdvertisePort are where others reach this node. They are given to the transport's FinalAdvertiseAddr, which
	// must make an IP address and a port of them.
	AdvertiseHost string
	AdvertisePort int

	Mesh  string // the label on every packet; what carries another one is dropped
	Key   []byte // gossip's key: 16, 24 or 32 bytes; empty for plain text
	Terms Terms  // what must be the same on every node

	// Peers are host:port addresses of some other nodes. Names are looked up again at each try and may stand for several
	// addresses. This node's own address may be among them.
	Peers []string

	Logger *slog.Logger // nil: slog.Default()

	// Handler is told of changes, one at a time, by a goroutine of the group. It may call Members. It must not call Leave or
	// Close, which wait for it, and must return soon after they were called. nil: nobody is told.
	Handler func(Event)

	// Greet asks which process is at an address. It is used to tell another live process of our name from what peers still
	// remember of our last life. An answer counts even when it comes with an error (the other one may refuse us). nil: a gossip
	// ping, which can't tell two of our own addresses from two processes.
	Greet func(ctx context.Context, addr string) (vote.SessionID, error)

	Resolve func(ctx context.Context, host string) ([]netip.Addr, error) // looks a peer's name up; nil: the system's resolver
	Jitter  func() float64                                               // in [0, 1), for back-off; called by one goroutine; nil: math/rand
	Timing  Timing                                                       // zero: the defaults
}

// Timing is how fast gossip is. Each field that is zero gets its default. Nothing depends on it but how soon the news arrive.
type Timing struct {
	// Probe is how often one other member is probed, and how long a probe may take. Default 500 ms: a failure is known after 2.4
	// to 3 s in a mesh of three. Less means more packets and more false alarms on slow links; more means later news, and a Close
	// that takes longer, since it waits for a probe under way.
	Probe time.Duration
	// ProbeTimeout is how long the answer to a probe may take before others are asked to probe too. It should be above the usual
	// round trip. Default two thirds of Probe.
	ProbeTimeout time.Duration
	// Gossip is how often news are passed on. Default 200 ms. Leave takes about five times as long.
	Gossip time.Duration
	// Sync is how often two members compare all they know. Default 10 s. It repairs what lost packets left wrong.
	Sync time.Duration
	// RetryMin and RetryMax bound the pause before a peer that isn't there is tried again: it doubles from one to the other.
	// Defaults 100 ms and 5 s.
	RetryMin, RetryMax time.Duration
}

// Defaults of Timing; see there.
const (
	probeDefault    = 500 * time.Millisecond
	gossipDefault   = 200 * time.Millisecond
	syncDefault     = 10 * time.Second
	retryMinDefault = 100 * time.Millisecond
	retryMaxDefault = 5 * time.Second
)

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&t.Probe, probeDefault)
	set(&t.ProbeTimeout, t.Probe*2/3)
	set(&t.Gossip, gossipDefault)
	set(&t.Sync, syncDefault)
	set(&t.RetryMin, retryMinDefault)
	set(&t.RetryMax, max(t.RetryMin, retryMaxDefault))
	return t
}

func (t Timing) validate() error {
	var errs []error
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"Probe", t.Probe}, {"ProbeTimeout", t.ProbeTimeout}, {"Gossip", t.Gossip}, {"Sync", t.Sync},
		{"RetryMin", t.RetryMin}, {"RetryMax", t.RetryMax},
	} {
		if f.d <= 0 {
			errs = append(errs, fmt.Errorf("Timing.%s is %v: it must be positive", f.name, f.d))
		}
	}
	if t.ProbeTimeout > t.Probe {
		errs = append(errs, fmt.Errorf("Timing.ProbeTimeout is %v: it must not be above Probe (%v)", t.ProbeTimeout, t.Probe))
	}
	if t.RetryMin > t.RetryMax {
		errs = append(errs, fmt.Errorf("Timing.RetryMin is %v: it must not be above RetryMax (%v)", t.RetryMin, t.RetryMax))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Handler == nil {
		c.Handler = func(Event) {}
	}
	if c.Resolve == nil {
		c.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	c.Timing = c.Timing.withDefaults()
	return c
}

// validate finds all that serf and memberlist would refuse, and joins the complaints: they leave goroutines behind when they fail.
func (c Config) validate() error {
	errs := []error{c.Timing.validate()}
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Self.Node == "" || len(c.Self.Node) > vote.MaxNameLen {
		complain("the node's name %q has %d bytes: it must have 1 to %d", c.Self.Node, len(c.Self.Node), vote.MaxNameLen)
	}
	if c.Transport == nil {
		complain("Transport is missing")
	}
	if len(c.Mesh) > memberlist.LabelMaxSize {
		complain("the mesh's name has %d bytes: it may have %d", len(c.Mesh), memberlist.LabelMaxSize)
	}
	switch len(c.Key) {
	case 0, 16, 24, 32:
	default:
		complain("the gossip key has %d bytes: it must have 16, 24 or 32, or none", len(c.Key))
	}
	for _, p := range c.Peers {
		if _, _, err := splitPeer(p); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// splitPeer splits a configured address into host and port.
func splitPeer(peer string) (host string, port uint16, err error) {
	host, service, err := net.SplitHostPort(peer)
	if err != nil {
		return "", 0, fmt.Errorf("peer %q is not host:port: %w", peer, err)
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("peer %q needs a host and a port from 1 to 65535", peer)
	}
	return host, uint16(n), nil
}
