package lockmesh

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/benbjohnson/clock"
	"golang.org/x/text/unicode/norm"

	"github.com/lockmesh/lockmesh/internal/netaddr"
	"github.com/lockmesh/lockmesh/internal/peers"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/register"
)

// Limits and defaults of a [Config].
const (
	// MinTTL is the least value of MaxTTL and TTL. On a busy machine, refreshes can't keep a
	// shorter lease alive.
	MinTTL = 200 * time.Millisecond

	// LongestTTL is the largest value of MaxTTL and TTL. After a crash, a lease blocks its key for
	// a TTL, and a restarted voter is quiet for MaxTTL; an application that needs a day of either
	// needs something other than a lease. The limit also keeps all arithmetic far from overflow.
	LongestTTL = 24 * time.Hour

	// DefaultMaxTTL is the default of MaxTTL.
	DefaultMaxTTL = 10 * time.Second

	// DefaultBind is the default of Bind.
	DefaultBind = ":7950"

	// DefaultMesh is the default of Mesh.
	DefaultMesh = "default"

	// MaxWatches is the maximum number of open watches of a node. Each watch costs a slot at every
	// voter, and a goroutine at this node.
	MaxWatches = 1024

	// MaxVoters is the size of the largest possible electorate: the limit on the length of
	// Config.Voters, and the largest value of the field Config.MaxVoters, which limits the growth
	// of an electorate with dynamic membership.
	MaxVoters = 63

	// DefaultMaxVoters is the default of the field MaxVoters. Seven voters survive the loss of
	// three; more voters make each lock slower.
	DefaultMaxVoters = 7

	// DefaultRegisterTerm is the default of RegisterTerm: an outage of the register of more than
	// six minutes is needed to stop a lock.
	DefaultRegisterTerm = 10 * time.Minute

	// LongestRegisterTerm is the largest value of RegisterTerm.
	LongestRegisterTerm = 7 * 24 * time.Hour

	// MaxPeers is the largest number of addresses in Peers. A few addresses are enough to find all
	// other nodes; each is tried for as long as its node is missing.
	MaxPeers = 256
)

// Config configures a node: its identity, its peers and the nodes that it trusts. The zero value of
// a field means the field's default if there is one, and is an error otherwise.
//
// Mesh, MinVoters and Secret must be equal on all nodes of a mesh, and so must Voters or Expect;
// with fixed Voters, MaxTTL too. Either all or none of the nodes have a StateDir; either all or
// none have a Register. A node that differs is refused; its log and the logs of the others name
// both values.
type Config struct {
	// Name is the node's name, unique in the mesh: up to 128 bytes of printable UTF-8 without
	// spaces or commas. A second live process with the same name is refused, as long as both
	// processes, or the voters, can hear of each other. Without StateDir there is no further
	// protection: if a process with a voter's name is started elsewhere while the first process is
	// cut off, a lock may have two holders until the two meet. Default: the host's name, and with
	// Expect the host's name with a random suffix, new at each start. Set Name when several nodes
	// share a host, or when hosts are renamed.
	Name string

	// Mesh is the name of the mesh, up to 128 bytes like Name. The name keeps apart meshes that can
	// reach each other. Default "default".
	Mesh string

	// Bind is the address on which the node listens, host:port, with TCP and UDP on the same port.
	// Port 0 lets the system choose a port. A host name or address limits the node to one
	// interface; an empty host means all interfaces. Default ":7950".
	Bind string

	// Advertise is the address at which other nodes reach this node: host:port, or a host alone to
	// use the port on which the node listens. Default: the listening address, where an unspecified
	// host is replaced by an address of this machine, a private address before a public one. Set
	// Advertise behind address translation, or on a machine with several networks.
	Advertise string

	// Peers are the addresses of some other nodes; at least one of them should be up when this node
	// starts. This node's own address may be among them, so all nodes can share the same list. The
	// addresses are tried for as long as the node runs. With StateDir, addresses from earlier
	// incarnations are tried as well. Default: none; such a node waits to be found. An entry is
	//
	//	host:port             an address. A host name may have several addresses; it is looked up
	//	                      again at each try while no node is known there.
	//	dns:name:port         a name with an address for each node, such as a headless service of
	//	                      Kubernetes
	//	srv:_mesh._tcp.name   a name with an SRV record, a host and a port, for each node
	//	file:path             a file with host:port in each line; text after # is ignored
	//
	// The last three are looked up again every 2 s until this node knows another node, and every
	// 30 s afterwards, so that a mesh in parts finds together (a file is read every 2 s while no
	// live node is known at some address). An entry without an address is logged, and named by the
	// errors of calls that find no voters.
	Peers []string

	// Discover, if not nil, returns more addresses, host:port, of other nodes. It is called as
	// often as dns: is looked up, never twice at the same time, with a context that ends after 5 s
	// or when the node stops. Close doesn't wait for a function that ignores the context.
	// A panic of the function is taken for an error.
	Discover func(ctx context.Context) ([]string, error)

	// Voters are the names of the nodes that grant locks: the electorate, in which a majority
	// decides. Required, unless Expect is set.
	//
	// Three voters survive the loss of one, five the loss of two. An even number survives no more
	// losses than the odd number below. More voters make each lock a little slower. Nodes that are
	// not on the list can take locks but don't vote.
	//
	// The list must be the same on all nodes. While a starting voter sees that another list may
	// have a majority, its votes don't count, and its calls fail with ErrRefused. So the list can
	// be changed by restarting node by node, at the cost of a pause of a MaxTTL and a few seconds;
	// nodes that are cut off from each other can't see that their lists differ. See
	// docs/adr/0012-voter-lists.md.
	//
	// With StateDir, membership of the electorate is dynamic, and Voters names the founders: the
	// voters of the electorate's first version. The list then stays the same, however the
	// electorate changes later.
	Voters []string

	// StateDir is a directory on a local disk for this node alone. With StateDir, membership of the
	// electorate is dynamic: nodes that are gone are voted out, and nodes on standby are voted in,
	// up to MaxVoters. The directory stores this node's promises about such changes. Either every
	// node of the mesh has a StateDir or none has. The directory is created if missing. Default:
	// none, and the electorate is fixed.
	//
	// A node that has lost its directory is a new peer, and is voted in again. Never restore the
	// directory from an old copy: the copy lacks the promises made later.
	StateDir string

	// Bootstrap makes this node, one of Voters, found the electorate together with all the other
	// founders if its directory is empty. Set Bootstrap for the very first start of the founders,
	// and remove it from the configuration once the electorate exists: founders that have all lost
	// their directories would found a second mesh. A node with an empty directory and without
	// Bootstrap waits until it meets a node of the mesh, and is voted in. If Bootstrap is still set
	// after the founding, the node logs a warning at every start.
	Bootstrap bool

	// FromFixed gives a mesh with fixed Voters dynamic membership, in two rolling restarts without
	// a stop: set StateDir and FromFixed for the first restart of each node, and leave Voters as
	// they are; when all nodes run so, take FromFixed out for the second restart of each node.
	// From then on the voters can change. A node with FromFixed accepts nodes of both kinds, takes
	// no part in changes of the electorate, and doesn't found one. While FromFixed is set, Voters,
	// MaxTTL and Mesh must not change, and the directory must not be lost or removed. The first
	// restart can be taken back, by leaving StateDir and FromFixed out again; the second can't. See
	// docs/converting.md.
	FromFixed bool

	// Expect takes the place of Voters and StateDir for processes with random names and no disks,
	// such as the pods of a Deployment. As soon as Expect processes that know of no mesh reach each
	// other, they found the mesh, and are its first voters. From then on membership is dynamic:
	// voters that are gone are voted out, and other processes are voted in, up to MaxVoters. Expect
	// is the same on all nodes, usually 3 or 5, and 2 survives no failure.
	//
	// With Expect from 2 on, no lock has two holders as long as no more than Expect+1 processes of
	// the mesh run at once, those that are being terminated included, and NonVoting ones not
	// counted (with MinVoters 5: Expect+2), and as all are configured with one MaxTTL. Beyond that
	// number two meshes may come to be, if their processes can't reach each other. See
	// docs/fleets.md for what this means, and what Kubernetes does to it.
	//
	// Expect 1 is a mesh of a single process, for development: it takes in no other process, and
	// grants locks at once.
	Expect int

	// MinVoters is the number of voters below which the electorate doesn't shrink, with Expect
	// only, and the same on all nodes. A larger value allows for more processes at once; see
	// Expect. At most Expect. Default 3, or Expect if that is smaller. While a process started
	// again under its Name takes the place of its predecessor, there is a voter less, if MinVoters
	// is odd.
	MinVoters int

	// Register, if not nil, is a small record outside of the mesh, such as a ConfigMap or a row in
	// a database, that says which mesh may act. With a register no two meshes hold valid leases at
	// one time, however many processes run; see Expect for the bound without one. Founders wait
	// until the register names their mesh. Voters write the record three times in a RegisterTerm,
	// and don't act if they couldn't write for a whole RegisterTerm. A call of Lock never waits for
	// the register. Either all nodes of the mesh have the same Register, or none has one; NonVoting
	// nodes don't call it. Only with Expect from 2 on. See package register, and docs/fleets.md.
	Register register.Register

	// RegisterTerm is for how long voters act without the register: an outage of up to two thirds
	// of it stops nothing. It is also for how long all processes must be gone, or cut off, before
	// others found the next mesh. The value with which a mesh was founded counts until its end.
	// Only with Register, and at least MaxTTL. Default 10 min.
	RegisterTerm time.Duration

	// MaxVoters is the maximum size of an electorate with dynamic membership, at most the constant
	// of the same name. Effectively the maximum is odd, since an even number of voters survives no
	// more losses than the odd number below. MaxVoters is decided with the electorate: the founders
	// must be configured alike, and afterwards the value changes once a majority of the voters is
	// configured with another value. A single node with another value logs the difference and
	// changes nothing. A larger electorate is reduced, but never below three voters for this
	// reason. Only with StateDir or Expect. Default 7, or Expect if that is larger.
	MaxVoters int

	// NonVoting keeps this node from voting: it takes locks and grants none. With dynamic
	// membership it is never voted in, however many voters are missing, and if it is a voter from
	// an earlier start, it is voted out as if it left: one of two voters stays until another voting
	// node takes its place. Set NonVoting for nodes that come and go, such as tools and jobs. With
	// a fixed electorate every node outside Voters is such a node anyway, and NonVoting only guards
	// against a name that is in the list by mistake: a name in Voters is an error, also among the
	// founders.
	NonVoting bool

	// MaxTTL bounds, on every node, how long a lease can outlive the last message of its holder's
	// node, from MinTTL to LongestTTL. A voter that has started is quiet for as long: its votes
	// don't count. A larger value rides out longer interruptions; a smaller value hands over faster
	// after a crash and restarts sooner. Default 10 s.
	//
	// With dynamic membership MaxTTL is decided with the electorate: founders with StateDir must be
	// configured alike, and of founders with Expect the longest value counts. Afterwards the value
	// changes once a majority of the voters is configured with another value, so restart the nodes
	// with it one after the other; leases go on meanwhile. With Expect and no Register a change may
	// let a key have two holders: stop all processes for it (docs/changing-maxttl.md). A single
	// node with another value logs the difference and applies the decided value: where that is less
	// than its own, its leases last for less after its last message. With fixed Voters a node with
	// another MaxTTL is refused: a larger value may be given node by node, at the cost of a pause,
	// and a smaller value only with all nodes stopped for the old MaxTTL.
	MaxTTL time.Duration

	// TTL is how long this node's leases outlive the node's last message, from MinTTL to MaxTTL. A
	// node that should hand over fast after a crash sets a lower TTL than the others, at the cost
	// of more frequent refreshes, five per TTL. Default MaxTTL.
	TTL time.Duration

	// Secret is the shared secret of the nodes of the mesh: MinSecretLen random bytes or more, such
	// as those of [NewSecret]. A secret that is obviously weak is refused.
	// Every process that knows the secret is a member. The secret encrypts all traffic. Without a
	// secret, everything is plain text and every process that can reach the port is a member; an
	// empty Secret is allowed only when Bind and Advertise are loopback addresses, or with
	// Insecure.
	Secret Secret

	// Secrets takes the place of Secret while the secret of a mesh is changed: all of them are
	// accepted, up to MaxSecrets, and the first is sent. See [Mesh.SetSecrets], and
	// docs/changing-the-secret.md for the three steps. Setting both fields is an error.
	Secrets []Secret

	// Insecure allows an empty Secret on addresses other than loopback. Use Insecure only where the
	// network itself is trusted.
	Insecure bool

	// Logger receives messages for the operator. A single goroutine passes the lines to Logger;
	// while Logger is too slow, lines are dropped and counted. Default: slog.Default().
	Logger *slog.Logger

	// Observer, if not nil, is told what happens at this node, for metrics and traces. It can't
	// harm a lease, however slow it is. Its functions must not be changed after Join. See
	// [JoinObservers] for several. Default: none, which costs nothing.
	Observer *Observer

	// Clock replaces the system's clocks, for tests: all readings derive from its Now, and all
	// timers are its own. Default (nil): the clocks of the system. Holders then measure with a
	// clock that continues while the machine is suspended, if the system has one, and with the wall
	// clock where the wall clock has run further.
	Clock clock.Clock
}

// Validate returns all errors of the configuration, joined, or nil. Each error is an ErrConfig and
// says what to change.
func (c Config) Validate() error {
	c, err := c.withDefaults()
	return errors.Join(err, c.check())
}

// withDefaults returns the configuration with all defaults filled in. It fails if a default can't
// be determined.
func (c Config) withDefaults() (Config, error) {
	var err error
	if c.Name == "" {
		host, hostErr := os.Hostname()
		if hostErr != nil || host == "" {
			if c.Expect == 0 {
				err = fieldError("Name", "it is empty and the host has no name (%v); name the node", hostErr)
			}
			host = "unnamed" // prevents a second complaint
		}
		if c.Name = host; c.Expect > 0 {
			c.Name = randomName(host)
		}
	}
	if c.Mesh == "" {
		c.Mesh = DefaultMesh
	}
	if c.Bind == "" {
		c.Bind = DefaultBind
	}
	if c.MaxTTL == 0 {
		c.MaxTTL = DefaultMaxTTL
	}
	if c.TTL == 0 {
		c.TTL = c.MaxTTL
	}
	switch {
	case c.Expect > 0:
		c.expectDefaults()
	case c.MaxVoters == 0 && c.StateDir != "":
		c.MaxVoters = DefaultMaxVoters
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Peers, c.Voters, c.Secret = slices.Clone(c.Peers), slices.Clone(c.Voters), slices.Clone(c.Secret)
	c.Secrets = slices.Clone(c.Secrets)
	return c, err
}

func fieldError(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrConfig, field, fmt.Sprintf(format, args...))
}

// check returns the errors of a configuration with defaults filled in.
func (c Config) check() error {
	var errs []error
	add := func(field, problem string) {
		if problem != "" {
			errs = append(errs, fieldError(field, "%s", problem))
		}
	}
	add("Name", badName(c.Name))
	add("Mesh", badName(c.Mesh))
	bindHost, bindProblem := netaddr.Host(c.Bind, true)
	add("Bind", bindProblem)
	advertiseHost, advertiseProblem := bindHost, ""
	if c.Advertise != "" {
		advertiseHost, advertiseProblem = netaddr.AdvertisedHost(c.Advertise)
		add("Advertise", advertiseProblem)
	}
	if len(c.Peers) > MaxPeers {
		add("Peers", fmt.Sprintf("there are %d addresses, at most %d are tried; a few are enough", len(c.Peers), MaxPeers))
	}
	for _, p := range c.Peers {
		add("Peers", peers.Check(p))
	}
	if c.Expect == 0 || len(c.Voters) > 0 {
		errs = append(errs, c.checkVoters()...)
	}
	c.checkDynamic(add)
	c.checkExpect(add)
	add("MaxTTL", badTTL(c.MaxTTL))
	switch problem := badTTL(c.TTL); {
	case problem != "" && c.TTL != c.MaxTTL:
		add("TTL", problem)
	case problem == "" && c.TTL > c.MaxTTL:
		add("TTL", fmt.Sprintf("%v is more than MaxTTL, which is %v; lower it, or raise MaxTTL on every node", c.TTL, c.MaxTTL))
	}
	exposed := bindProblem == "" && advertiseProblem == "" &&
		!(netaddr.IsLoopback(bindHost) && netaddr.IsLoopback(advertiseHost))
	if exposed && len(c.secrets()) == 0 && !c.Insecure {
		add("Secret", fmt.Sprintf("it is empty while %s can be reached from outside; set %d "+
			"random bytes or more, the same on all nodes, or bind to 127.0.0.1, or set Insecure "+
			"if the network itself is trusted",
			c.reachable(bindHost), MinSecretLen))
	}
	if len(c.Secret) > 0 && len(c.Secrets) > 0 {
		add("Secrets", "Secret is set, too; put that secret among Secrets, first if it is to be sent")
	}
	if len(c.Secret) > 0 {
		add("Secret", c.Secret.problem())
	}
	if len(c.Secrets) > 0 {
		add("Secrets", secretsProblem(c.Secrets))
	}
	return errors.Join(errs...)
}

// checkDynamic reports errors in the settings for dynamic membership.
func (c Config) checkDynamic(add func(field, problem string)) {
	const fixed = "it applies to dynamic membership only, and StateDir is empty, so the voters " +
		"are fixed; "
	isFixed := c.StateDir == "" && c.Expect == 0
	switch {
	case c.MaxVoters < 0:
		add("MaxVoters", fmt.Sprintf("%d is negative; zero means the default, %d", c.MaxVoters, DefaultMaxVoters))
	case c.MaxVoters > MaxVoters:
		add("MaxVoters", fmt.Sprintf("%d is more than %d, the largest electorate; a handful is enough, all other nodes still take locks", c.MaxVoters, MaxVoters))
	case c.MaxVoters > 0 && isFixed:
		add("MaxVoters", fixed+"leave MaxVoters out, or give every node a StateDir")
	}
	if c.NonVoting && slices.Contains(c.Voters, c.Name) {
		add("NonVoting", fmt.Sprintf("this node, %q, is named in Voters, so it has to vote; leave NonVoting out, or take the name out of Voters on every node", c.Name))
	}
	switch {
	case strings.ContainsRune(c.StateDir, 0):
		add("StateDir", fmt.Sprintf("%q has a zero byte, which no path may have", c.StateDir))
	case c.FromFixed && c.Expect > 0: // see checkExpect
	case c.FromFixed && c.StateDir == "":
		add("FromFixed", "it gives a mesh with fixed Voters dynamic membership, and for this each node needs a directory; set StateDir, or leave FromFixed out")
	case c.FromFixed && c.Bootstrap:
		add("FromFixed", "Bootstrap is set, too, and a mesh is either founded or converted; leave Bootstrap out")
	case c.Bootstrap && c.Expect > 0: // see checkExpect
	case c.Bootstrap && isFixed:
		add("Bootstrap", fixed+"leave Bootstrap out, or give every node a StateDir")
	case c.Bootstrap && !slices.Contains(c.Voters, c.Name):
		add("Bootstrap", fmt.Sprintf("this node, %q, isn't among the founders listed in Voters; "+
			"leave Bootstrap out: the node is voted in", c.Name))
	}
}

// reachable returns the address because of which a secret is necessary.
func (c Config) reachable(bindHost string) string {
	if netaddr.IsLoopback(bindHost) {
		return "Advertise " + strconv.Quote(c.Advertise)
	}
	return "Bind " + strconv.Quote(c.Bind)
}

// checkVoters returns the errors of Voters: an empty electorate has no majority, and neither has an
// electorate that counts a process twice.
func (c Config) checkVoters() (errs []error) {
	if len(c.Voters) == 0 {
		return []error{fieldError("Voters", "the list is empty; list the nodes that vote, usually "+
			"3 or 5, or set Expect if processes have random names and no disks")}
	}
	if len(c.Voters) > MaxVoters {
		errs = append(errs, fieldError("Voters", "%d are named, at most %d can vote; a handful is enough, all other nodes still take locks",
			len(c.Voters), MaxVoters))
	}
	seen := make(map[string]int, len(c.Voters))
	for _, v := range c.Voters {
		if problem := badName(v); problem != "" {
			errs = append(errs, fieldError("Voters", "%s", problem))
		}
		seen[v]++
	}
	for _, v := range slices.Compact(slices.Sorted(slices.Values(c.Voters))) {
		if seen[v] > 1 {
			errs = append(errs, fieldError("Voters", "%q is named %d times, but one process can't vote twice: "+
				"of %d voters a majority is %d, and there are only %d; name each once",
				v, seen[v], len(c.Voters), len(c.Voters)/2+1, len(seen)))
		}
	}
	return errs
}

// badName returns the reason why a string can't be the name of a node or mesh; empty if it can.
func badName(name string) string {
	switch {
	case name == "":
		return "a name is empty; leave it out or fill it in"
	case len(name) > vote.MaxNameLen:
		return fmt.Sprintf("the name %.20q... has %d bytes, more than %d; shorten it", name, len(name), vote.MaxNameLen)
	case !utf8.ValidString(name):
		return fmt.Sprintf("the name %q isn't UTF-8", name)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return fmt.Sprintf("the name %q has spaces or characters that can't be printed; use letters, digits and dashes", name)
	case strings.Contains(name, ","):
		return fmt.Sprintf("the name %q has a comma, as a list has that wasn't split; give each name by itself", name)
	case !norm.NFC.IsNormalString(name):
		return fmt.Sprintf("the name %+q looks like %+q and has other bytes, so nodes would take it for another; use the second, which is in Unicode's form NFC",
			name, norm.NFC.String(name))
	}
	return ""
}

// badTTL returns the reason why a duration can't be a TTL; empty if it can.
func badTTL(d time.Duration) string {
	switch {
	case d < 0:
		return fmt.Sprintf("%v is negative; zero means the default", d)
	case d < MinTTL:
		return fmt.Sprintf("%v is less than %v, the shortest TTL that can be renewed in time", d,
			MinTTL)
	case d > LongestTTL:
		return fmt.Sprintf("%v is more than %v; after a crash keys stay blocked for as long, so choose seconds", d, LongestTTL)
	}
	return ""
}

// randomBytes is how many random bytes a name has at its end: so many that no two processes
// of a mesh draw the same.
const randomBytes = 5

// randomName returns a new name for a process on a host.
func randomName(host string) string {
	var b [randomBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	suffix := "-" + hex.EncodeToString(b[:])
	if most := vote.MaxNameLen - len(suffix); len(host) > most {
		host = host[:most]
		for !utf8.ValidString(host) {
			host = host[:len(host)-1]
		}
	}
	return host + suffix
}

// secrets returns all configured secrets, the one that is sent first.
func (c *Config) secrets() []Secret {
	if len(c.Secret) > 0 {
		return []Secret{c.Secret}
	}
	return c.Secrets
}
