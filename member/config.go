package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Config is the configuration of Start. Fields without a comment on their zero value are required.
type Config struct {
	Self vote.SessionID // this node's name and incarnation
	Dir  vote.Dir       // the identity of this node's state directory; zero: there is none

	// Transport carries gossip. Start takes ownership: the transport is shut down with the group,
	// but not when Start fails. Its Shutdown should end dials under way, and an error of its
	// WriteTo should be a *net.OpError: memberlist blames any other error on this node and does not
	// suspect the peer.
	Transport memberlist.Transport

	// AdvertiseHost and AdvertisePort are the address at which others reach this node. They are
	// passed to the transport's FinalAdvertiseAddr, which must convert them to an IP address and a
	// port.
	AdvertiseHost string
	AdvertisePort int

	Mesh string // the label of every packet; packets with another label are dropped
	// Keys are gossip's keys, of 16, 24 or 32 bytes: all of them decrypt, and the first encrypts.
	// Empty for plain text.
	Keys  [][]byte
	Terms Terms // the parameters that must be the same on every node

	// Peers are where to look for other nodes. This node's own address may be among them.
	Peers []Peer

	Logger *slog.Logger // nil: slog.Default()

	// Handler receives changes, one at a time, on a goroutine of the group. Handler may call
	// Members. Handler must not call Leave or Close, which wait for Handler, and must return soon
	// after either was called. nil: no notification.
	Handler func(Event)

	// Excluded is called for each member refused because its terms differ. memberlist holds its
	// lock during the call, so Excluded must not block. nil: no notification.
	Excluded func(Member)

	// ProbeAddr probes an address: it returns the process there. ProbeAddr distinguishes another
	// live process with our name from our previous incarnation, which peers may still remember. A
	// returned process counts even with an error (the process may refuse us). nil: a gossip ping,
	// which can't distinguish two of our own addresses from two processes.
	ProbeAddr func(ctx context.Context, addr string) (vote.SessionID, error)

	// Jitter returns a number in [0, 1), for back-off; one goroutine calls Jitter. nil: math/rand.
	Jitter func() float64
	Timing Timing // zero: the defaults
	// Groups counts the open groups of this process. nil: this group is the only group.
	Groups *ProcessGroups
}

// Peer is an address, or a group of addresses, at which to look for other nodes.
type Peer struct {
	Text string // for the log
	// LookUp returns the present addresses, at least one, or an error. The group calls LookUp at
	// each try, so a LookUp that costs much should remember its answer for a while.
	// The functions of several peers are called at the same time, from goroutines of the group.
	LookUp func(ctx context.Context) ([]netip.AddrPort, error)
	// Changes says that the addresses are looked up again although all of them belong to members:
	// the peer stands for many nodes that come and go.
	Changes bool
}

// Timing sets the speed of gossip. Each zero field gets its default. Only the delay of membership
// changes depends on Timing.
type Timing struct {
	// Probe is the interval at which one other member is probed, and the maximum duration of a
	// probe. Default 500 ms: in a mesh of three a failure is known after 2.4 to 3 s. A shorter
	// interval means more packets and more false alarms on slow links; a longer interval means
	// later detection, and a slower Close, which waits for a probe under way. For a group
	// that starts beside many others the default is 1 to 2 s; see [ProcessGroups].
	Probe time.Duration
	// ProbeTimeout is how long to wait for the answer to a probe before other members are asked to
	// probe too. ProbeTimeout should be above the usual round trip. Default two thirds of Probe.
	ProbeTimeout time.Duration
	// Gossip is the interval at which news is passed on. Default 200 ms. Leave takes about five
	// times as long.
	Gossip time.Duration
	// Sync is the interval at which two members compare their full state, repairing the effects of
	// lost packets. Default 10 s.
	Sync time.Duration
	// RetryMin and RetryMax bound the pause before an unreachable peer is tried again: the pause
	// doubles from RetryMin to RetryMax. Defaults 100 ms and 5 s.
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

func (t Timing) withDefaults(groups groupCount) Timing {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&t.Probe, groups.probe())
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

func (c Config) withDefaults(groups groupCount) Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Handler == nil {
		c.Handler = func(Event) {}
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	c.Timing = c.Timing.withDefaults(groups)
	return c
}

// validate finds every mistake that serf or memberlist would refuse, and joins the errors: serf and
// memberlist leave goroutines behind when they fail.
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
	for _, k := range c.Keys {
		if memberlist.ValidateKey(k) != nil {
			complain("a gossip key has %d bytes: it must have 16, 24 or 32", len(k))
		}
	}
	for i := range c.Peers {
		if c.Peers[i].LookUp == nil {
			complain("peer %q has no LookUp", c.Peers[i].Text)
		}
	}
	return errors.Join(errs...)
}
