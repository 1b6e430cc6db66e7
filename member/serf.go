package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// dialMax bounds the opening of a stream. A TLS handshake takes three round trips; half a
	// second each is a bad line.
	dialMax = 1500 * time.Millisecond
	// streamMax bounds a whole exchange of members on a stream.
	streamMax = 5 * time.Second
	// goodbyeMax bounds the propagation of each of the two messages of a departure, and
	// propagateMax is how long this node stays to answer the last probes. So Leave takes 2 s at
	// most, and usually about half of 2 s.
	goodbyeMax   = 900 * time.Millisecond
	propagateMax = 100 * time.Millisecond
	// reclaimAfter is how long after a failure a name may return with another address: at once.
	// memberlist interprets zero as never.
	reclaimAfter = time.Millisecond
	// eventsMax is the capacity of serf's event channel. The goroutine that drains the channel does
	// next to nothing for each event. serf also needs the capacity in order to end: see drain.
	eventsMax = 64
	// forgetAfter is how long serf tries to reach a failed member again, and how long it remembers
	// a member that left and has a directory, since such a member may have a vote.
	forgetAfter = 7 * 24 * time.Hour
	// forgetSoon is how long serf remembers any other member that left, and a failed member of a
	// mesh that is born by count: an ended process never comes back, and a process that is cut off
	// for so long has lost its vote. Short-lived processes with ever new names would fill the
	// memory of all nodes otherwise. Parts of a network that are cut off for longer find each other
	// by the configured peers.
	forgetSoon = time.Hour
	// reconnectEvery is the interval at which serf tries one of the failed members: failed members
	// that aren't configured peers return this way.
	reconnectEvery = 10 * time.Second
	// pendingRestartProbes is for how many probe intervals a pending restart is valid: gossip
	// notices a death in 11.
	pendingRestartProbes = 16
	// closeSlack is added to the wait for memberlist's last probe, since the probe's goroutine may
	// still write a log line at the end.
	closeSlack = 10 * time.Millisecond
)

// refusedPrefix begins the text of every refusal, so that the log adapter recognizes refusals.
const refusedPrefix = "lockmesh refuses member "

// Serf is a group maintained by gossip. Its methods may be called from many goroutines.
//
// Its goroutines: drain (empties serf's event channel), notifyHandler (calls the Handler), join
// (see joiner), duplicates (see duplicateNames), watch (detects serf ending by itself) and the
// feeds of closableTransport. All have ended when Close returns, and so have serf's and
// memberlist's.
type Serf struct {
	cfg           Config
	groupsAtStart groupCount // of the process when this group started, this group included
	log           *slog.Logger
	tags          map[string]string // without the tags that change: dir and keys
	own           netip.AddrPort
	transport     *closableTransport
	serf          *serf.Serf

	tagsMu sync.Mutex          // serializes SetKeys and SetDir; guards dir and sent
	keys   *memberlist.Keyring // nil for plain text
	dir    vote.Dir
	sent   [][]byte // the keys of which the ids are published

	joiner          *joiner
	duplicates      *duplicateNames
	pendingRestarts pendingRestarts
	// reported maps each member reported to the Handler, other than this node, to its incarnation.
	// The map is never changed, only replaced.
	reported atomic.Pointer[map[vote.NodeID]vote.Incarnation]

	changed chan struct{} // capacity 1: some member changed
	direct  chan Event    // events for the Handler that aren't derived from Members
	events  chan serf.Event

	ctx    context.Context    // of the goroutines, and of the timers of pending restarts
	cancel context.CancelFunc // ends ctx
	down   chan struct{}      // closed when serf has shut down
	work   sync.WaitGroup

	refusals     atomic.Uint64
	refusalLogMu sync.Mutex
	refusalLog   rateLimits // about refused members

	mu      sync.Mutex
	closing bool
	goodbye chan struct{} // nil until Leave begins the departure, closed at its end
	ended   chan struct{} // closed when Close has finished
}

var _ Group = (*Serf)(nil)

// Start makes this node a member of the mesh and returns at once; peers are joined in the
// background until the group closes. When Start fails, the caller still owns the transport.
func Start(cfg Config) (*Serf, error) {
	s, err := start(cfg, cfg.Groups.enter())
	if err != nil {
		cfg.Groups.leave()
		return nil, err
	}
	return s, nil
}

// start starts a group as one of so many in the process.
func start(cfg Config, groups groupCount) (*Serf, error) {
	cfg = cfg.withDefaults(groups)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("member: %w", err)
	}
	tags := cfg.Terms.tags(cfg.Self.Incarnation)
	published, err := published(tags, cfg.Dir, cfg.Keys)
	if err != nil {
		return nil, fmt.Errorf("member: %w", err)
	}
	own, err := ownAddr(cfg)
	if err != nil {
		return nil, fmt.Errorf("member: %w", err)
	}

	var keys *memberlist.Keyring
	if len(cfg.Keys) > 0 {
		if keys, err = memberlist.NewKeyring(cfg.Keys, cfg.Keys[0]); err != nil {
			return nil, fmt.Errorf("member: %w", err)
		}
	}

	ctx, cancel := context.WithCancel(context.Background())
	s := &Serf{
		cfg: cfg, groupsAtStart: groups, log: cfg.Logger, tags: tags, own: own, keys: keys, dir: cfg.Dir, sent: cfg.Keys,
		transport: newClosableTransport(cfg.Transport, dialMax), ctx: ctx, cancel: cancel,
		changed: make(chan struct{}, 1), direct: make(chan Event), events: make(chan serf.Event, eventsMax),
		down: make(chan struct{}), ended: make(chan struct{}), refusalLog: make(rateLimits),
		duplicates: newDuplicateNames(cfg.Self, cfg.Logger),
	}
	s.serf, err = serf.Create(s.serfConfig(published))
	if err != nil {
		cancel()
		s.transport.cut()
		s.transport.feeds.Wait()
		return nil, fmt.Errorf("member: gossip can't start: %w", err)
	}
	s.joiner = &joiner{
		peers: newPeers(cfg.Peers), present: s.present, own: own,
		connect: func(a netip.AddrPort) error { return s.transport.connect(a.String()) }, join: s.join,
		discard: func(a netip.AddrPort) { s.transport.discard(a.String()) },
		jitter:  cfg.Jitter, log: s.log, timing: cfg.Timing, announce: make(chan struct{}, 1),
	}
	s.duplicates.listed = s.listed
	s.duplicates.answers = s.answers
	s.duplicates.report = func(e Event) { s.sendDirect(ctx, e) }
	s.duplicates.stale = func() { signal(s.joiner.announce) }
	s.duplicates.restarted = s.addPendingRestart
	s.transport.open()

	s.work.Go(s.drain)
	s.work.Go(func() { s.notifyHandler(ctx) })
	s.work.Go(func() { s.joiner.run(ctx) })
	s.work.Go(func() { s.duplicates.run(ctx) })
	s.work.Go(func() { s.watch(ctx) })
	return s, nil
}

// ownAddr returns the address that this node advertises.
func ownAddr(cfg Config) (netip.AddrPort, error) {
	ip, port, err := cfg.Transport.FinalAdvertiseAddr(cfg.AdvertiseHost, cfg.AdvertisePort)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("no address to advertise: %w", err)
	}
	addr, ok := netip.AddrFromSlice(ip)
	addr = addr.Unmap()
	if !ok || addr.IsUnspecified() || port <= 0 || port > 65535 {
		return netip.AddrPort{}, fmt.Errorf("can't advertise %s:%d: others need an IP address and a port that reach this node; set an address to advertise", ip, port)
	}
	return netip.AddrPortFrom(addr, uint16(port)), nil
}

// serfConfig returns the configuration of serf and memberlist, which serf keeps and changes, as it
// does the published tags.
func (s *Serf) serfConfig(published map[string]string) *serf.Config {
	lines := newLineLogger(s.log)

	m := memberlist.DefaultLANConfig()
	m.Transport = s.transport
	m.Label = s.cfg.Mesh
	m.Keyring = s.keys
	m.GossipVerifyIncoming, m.GossipVerifyOutgoing = true, true
	m.AdvertiseAddr, m.AdvertisePort = s.own.Addr().String(), int(s.own.Port())
	// unused: the transport is bound already
	m.BindAddr, m.BindPort = m.AdvertiseAddr, m.AdvertisePort
	m.Logger, m.LogOutput = lines, nil
	m.DeadNodeReclaimTime = reclaimAfter
	m.TCPTimeout = streamMax
	m.EnableCompression = false // packets are small, and there is less to attack
	s.cfg.Timing.apply(m)
	s.cfg.Groups.apply(s.groupsAtStart, m)
	// A suspect has four probe intervals to object, or eight if no second accuser is found. A false
	// alarm does no harm: no decision depends on gossip.
	m.SuspicionMult, m.SuspicionMaxTimeoutMult = 4, 2
	// With a larger multiplier a node in poor health would probe more slowly, up to eight intervals
	// for one probe, and Close waits for a probe.
	m.AwarenessMaxMultiplier = 1

	c := serf.DefaultConfig()
	c.NodeName = string(s.cfg.Self.Node)
	c.Tags = published
	c.MemberlistConfig = m
	c.EventCh = s.events
	c.Logger, c.LogOutput = lines, nil
	c.Merge = &admission{s}
	c.EnableNameConflictResolution = false // the loser would shut itself down
	c.DisableCoordinates = true
	c.BroadcastTimeout, c.LeavePropagateDelay = goodbyeMax, propagateMax
	c.ReconnectTimeout, c.TombstoneTimeout = forgetAfter, forgetAfter
	c.ReconnectTimeoutOverride = memory{}
	c.ReconnectInterval = reconnectEvery
	return c
}

// memory tells serf how long it remembers a member that is gone.
type memory struct{}

// ReconnectTimeout returns how long serf remembers a member, by default for the given time.
func (memory) ReconnectTimeout(m *serf.Member, timeout time.Duration) time.Duration {
	if m.Tags[tagBirth] != "" || m.Status == serf.StatusLeft && m.Tags[tagDir] == "" {
		return forgetSoon
	}
	return timeout
}

// Timing returns the speed of gossip: as configured, or the defaults.
func (s *Serf) Timing() Timing { return s.cfg.Timing }

// Members returns all known members, including this node, sorted by name.
func (s *Serf) Members() []Member {
	all := s.serf.Members()
	members := make([]Member, 0, len(all))
	for i := range all {
		members = append(members, memberOf(&all[i]))
	}
	s.pendingRestarts.apply(members, time.Now())
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

// listed returns the member that gossip itself lists under a name.
func (s *Serf) listed(name vote.NodeID) (Member, bool) {
	all := s.serf.Members()
	for i := range all {
		if all[i].Name == string(name) {
			return memberOf(&all[i]), true
		}
	}
	return Member{}, false
}

func (s *Serf) addPendingRestart(m Member, instead vote.Incarnation) {
	valid := pendingRestartProbes * s.cfg.Timing.Probe
	s.pendingRestarts.add(m, instead, time.Now().Add(valid))
	signal(s.changed)
	ctx, cancel := context.WithTimeout(s.ctx, valid)
	context.AfterFunc(ctx, func() { // when the pending restart is over, or at the end of the group
		cancel()
		signal(s.changed)
	})
}

// Refusals returns how many times a member was refused because its terms differ.
func (s *Serf) Refusals() uint64 { return s.refusals.Load() }

// Keys returns which live members use which key.
func (s *Serf) Keys() []KeyUse {
	keys := make(map[vote.NodeID][]string)
	all := s.serf.Members()
	for i := range all {
		if m := &all[i]; m.Status == serf.StatusAlive {
			keys[vote.NodeID(m.Name)] = keysOf(m.Tags)
		}
	}
	return Uses(keys)
}

// SetKeys changes gossip's keys, and tells the other members the new ids. It waits for this up to
// goodbyeMax.
func (s *Serf) SetKeys(keys [][]byte) error {
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	if s.keys == nil || len(keys) == 0 {
		return errors.New("member: gossip without keys can't get keys, nor lose them")
	}
	tags, err := published(s.tags, s.dir, keys)
	if err != nil {
		return fmt.Errorf("member: %w", err)
	}
	if err := setKeyring(s.keys, keys); err != nil {
		return fmt.Errorf("member: %w", err)
	}
	s.sent = keys
	s.publish(tags)
	return nil
}

// SetDir tells the other members that this node votes with another identity from now on. It waits
// for this up to goodbyeMax.
func (s *Serf) SetDir(dir vote.Dir) {
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	tags, err := published(s.tags, dir, s.sent)
	if err != nil {
		s.log.Error("gossip can't announce this node's new identity to the other members", "error", err)
		return
	}
	s.dir = dir
	s.publish(tags)
}

// publish tells the other members this node's tags.
func (s *Serf) publish(tags map[string]string) {
	// An error means that the news is still on its way when the time is over.
	if err := s.serf.SetTags(tags); err != nil {
		s.log.Debug("members may learn of this node's new tags late", "error", err)
	}
}

// Leave announces the departure as far as ctx allows, and then closes the group. When ctx ends
// first, all traffic is cut at once, and Leave returns within 2 s more (see goodbyeMax) plus the
// time of Close.
func (s *Serf) Leave(ctx context.Context) error {
	s.mu.Lock()
	if s.goodbye == nil && !s.closing && ctx.Err() == nil {
		said := make(chan struct{})
		s.goodbye = said
		s.cancel() // a join would undo the departure
		go func() {
			defer close(said)
			if err := s.serf.Leave(); err != nil {
				s.log.Warn("gossip couldn't send the leave message", "error", err)
			}
		}()
	}
	said, closing := s.goodbye, s.closing
	s.mu.Unlock()

	var err error
	switch {
	case said != nil:
		select {
		case <-said:
		case <-ctx.Done():
			err = fmt.Errorf("member: other nodes may not have received the leave message: %w",
				context.Cause(ctx))
		}
	case !closing:
		err = fmt.Errorf("member: no leave message was sent: %w", context.Cause(ctx))
	}
	return errors.Join(err, s.Close())
}

// Close ends the group at once, without announcing the departure. From the call on no more packets
// are sent. Close returns when all goroutines have ended, which takes up to one probe interval if
// there are other members.
func (s *Serf) Close() error {
	s.transport.cut()
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	said := s.goodbye
	s.mu.Unlock()
	if !first {
		<-s.ended
		return nil
	}
	defer close(s.ended)
	defer s.cfg.Groups.leave()
	if said != nil {
		<-said // memberlist panics when shut down in the middle of a departure
	}
	return s.shutDown()
}

func (s *Serf) shutDown() error {
	s.cancel()
	alone := len(s.serf.Members()) <= 1
	err := s.serf.Shutdown()
	close(s.down)
	s.work.Wait()
	if !alone {
		// memberlist's shutdown doesn't wait for the probe under way, and the probe can't be
		// interrupted.
		time.Sleep(s.cfg.Timing.Probe + closeSlack)
	}
	if err != nil {
		return fmt.Errorf("member: %w", err)
	}
	return nil
}

// drain empties serf's event channel, since serf blocks when the channel is full. The content of
// events is ignored: notifyHandler reads Members instead.
func (s *Serf) drain() {
	for {
		select {
		case <-s.events:
			signal(s.changed)
		case <-s.down:
			// serf's sender notices the end at its next event or, as select chooses at random,
			// within a few more events. An empty channel has room for these events, which are never
			// read.
			for {
				select {
				case <-s.events:
				default:
					return
				}
			}
		}
	}
}

// notifyHandler calls the Handler.
func (s *Serf) notifyHandler(ctx context.Context) {
	known := make(map[vote.NodeID]Member)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			events := diff(known, s.Members(), s.cfg.Self.Node)
			incarnations := make(map[vote.NodeID]vote.Incarnation, len(known))
			for name, m := range known {
				incarnations[name] = m.Incarnation
			}
			s.reported.Store(&incarnations)
			for _, e := range events {
				s.cfg.Handler(e)
			}
		case e := <-s.direct:
			s.cfg.Handler(e)
		}
	}
}

func (s *Serf) sendDirect(ctx context.Context, e Event) {
	select {
	case s.direct <- e:
	case <-ctx.Done():
	}
}

// watch reports an unexpected end of serf. As far as known, serf doesn't end by itself with name
// conflict resolution off.
func (s *Serf) watch(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.serf.ShutdownCh():
		if ctx.Err() != nil {
			return
		}
		s.log.Error("gossip has ended unexpectedly: this node gets no more news of its peers; " +
			"restart this node")
		self := Member{Name: s.cfg.Self.Node, Incarnation: s.cfg.Self.Incarnation, Dir: s.cfg.Dir, Addr: s.own.String(), State: vote.Left}
		s.sendDirect(ctx, Event{Member: self, Kind: Stopped})
	}
}

// join exchanges members with the process at an address.
func (s *Serf) join(addr netip.AddrPort) error {
	defer s.transport.discard(addr.String())
	_, err := s.serf.Join([]string{addr.String()}, true)
	return err
}

// present returns the addresses of live members, including this node's.
func (s *Serf) present() map[netip.AddrPort]bool {
	all := s.serf.Members()
	addrs := make(map[netip.AddrPort]bool, len(all)+1)
	for i := range all {
		if all[i].Status == serf.StatusAlive {
			addrs[addrOf(&all[i])] = true
		}
	}
	addrs[s.own] = true
	return addrs
}

// answers reports whether the very incarnation m is at its address.
func (s *Serf) answers(ctx context.Context, m Member) bool {
	if s.cfg.ProbeAddr != nil {
		who, _ := s.cfg.ProbeAddr(ctx, m.Addr)
		return who == idOf(m)
	}
	addr, err := netip.ParseAddrPort(m.Addr)
	if err != nil {
		return false
	}
	const tries = 2 // a packet may be lost
	for range tries {
		if _, err = s.serf.Memberlist().Ping(string(m.Name), net.UDPAddrFromAddrPort(addr)); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err == nil
}

// Ping sends a packet to another live member; see Group.
func (s *Serf) Ping(ctx context.Context, name vote.NodeID) (time.Duration, error) {
	addr, known := s.aliveAddr(name)
	if !known {
		return 0, ErrUnknown
	}
	const tries = 3 // packets may be lost
	for range tries {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		took, err := s.serf.Memberlist().Ping(string(name), net.UDPAddrFromAddrPort(addr))
		if err == nil {
			return max(took, 0), nil // memberlist may note the answer before the sending
		}
	}
	return 0, ErrNoAnswer
}

// aliveAddr returns the address of another live member.
func (s *Serf) aliveAddr(name vote.NodeID) (addr netip.AddrPort, known bool) {
	all := s.serf.Members()
	for i := range all {
		if all[i].Name == string(name) && all[i].Status == serf.StatusAlive {
			return addrOf(&all[i]), true
		}
	}
	return addr, false
}

// admission decides which nodes may be members. serf calls NotifyMerge for every list of members in
// a join and for every single message that a member is alive, while memberlist holds its lock:
// NotifyMerge must not block.
type admission struct{ s *Serf }

var _ serf.MergeDelegate = (*admission)(nil)

// NotifyMerge refuses members with other terms, and notes duplicate names.
func (a *admission) NotifyMerge(members []*serf.Member) error {
	s := a.s
	var errs []error
	for _, m := range members {
		if m.Status == serf.StatusLeft {
			continue // the member is gone; memberlist doesn't add it
		}
		// A node of a mesh of one process refuses every other, and must not refuse itself:
		// memberlist panics at the departure of a node that isn't among its own members.
		self := m.Name == string(s.cfg.Self.Node) && incarnationOf(m.Tags) == s.cfg.Self.Incarnation
		if err := differs(s.tags, m.Tags); err != nil && !self {
			errs = append(errs, s.refuse(m, err))
			continue
		}
		if !s.isDuplicateName(m) {
			continue
		}
		s.duplicates.note(memberOf(m))
		if m.Name == string(s.cfg.Self.Node) && len(members) == 1 {
			// A message about this node alone. memberlist would drop the message too, but with two
			// errors in the log.
			errs = append(errs, fmt.Errorf("%s%s at %s: the name is that of this node", refusedPrefix,
				shown(m.Name), addrOf(m)))
		}
	}
	return errors.Join(errs...)
}

// isDuplicateName reports whether a message that a member is alive may concern another process than
// the current owner of the name.
func (s *Serf) isDuplicateName(m *serf.Member) bool {
	incarnation := incarnationOf(m.Tags)
	if m.Name == string(s.cfg.Self.Node) {
		// With our own address the message is about our previous incarnation: memberlist itself
		// overrules the message.
		return incarnation != s.cfg.Self.Incarnation && addrOf(m) != s.own
	}
	incarnations := s.reported.Load()
	if incarnations == nil {
		return false
	}
	listed, ok := (*incarnations)[vote.NodeID(m.Name)]
	return ok && listed != incarnation
}

// refuse counts a refusal, logs at a bounded rate, and returns the error for memberlist.
func (s *Serf) refuse(m *serf.Member, reason error) error {
	s.refusals.Add(1)
	addr := addrOf(m)
	if s.cfg.Excluded != nil {
		s.cfg.Excluded(memberOf(m))
	}
	s.refusalLogMu.Lock()
	due := s.refusalLog.due(m.Name+"@"+addr.String(), time.Now())
	s.refusalLogMu.Unlock()
	if due {
		s.log.Warn("a member is refused: its configuration differs",
			"name", shown(m.Name), "addr", addr, "error", reason)
	}
	return fmt.Errorf("%s%s at %s: %w", refusedPrefix, shown(m.Name), addr, reason)
}

// memberOf converts serf's representation. A leaving member counts as alive until it has left: the
// message about leaving may be an old one.
func memberOf(m *serf.Member) Member {
	state := vote.Alive
	switch m.Status {
	case serf.StatusFailed:
		state = vote.Failed
	case serf.StatusLeft:
		state = vote.Left
	}
	return Member{Name: vote.NodeID(m.Name), Incarnation: incarnationOf(m.Tags), Dir: dirOf(m.Tags), Addr: addrOf(m).String(), State: state}
}

func addrOf(m *serf.Member) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(m.Addr)
	return netip.AddrPortFrom(ip.Unmap(), m.Port)
}

func incarnationText(i vote.Incarnation) string { return strconv.FormatUint(uint64(i), 16) }

// signal leaves a signal in a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
