package lockmesh

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Limits and defaults of a [Config].
const (
	// MinTTL is the least value of MaxTTL and TTL. Below it a lease couldn't be kept up by its refreshes on a busy machine.
	MinTTL = vote.MinTTL

	// LongestTTL is the largest value of MaxTTL and TTL. After a crash a lease blocks its key for a TTL and a restarted voter is quiet
	// for MaxTTL; whoever needs a day of either needs something else than a lease. It keeps all arithmetic far from overflow, too.
	LongestTTL = 24 * time.Hour

	// DefaultMaxTTL is MaxTTL when nothing else is said.
	DefaultMaxTTL = 10 * time.Second

	// DefaultBind is Bind when nothing else is said.
	DefaultBind = ":7950"

	// DefaultMesh is Mesh when nothing else is said.
	DefaultMesh = "default"

	// MinSecretLen is the least length of a secret in bytes: 128 bits, which nobody guesses if they are random.
	MinSecretLen = 16

	// MaxVoters is the largest electorate that there can be: the most names that Config.Voters takes, and the largest value of the field
	// Config.MaxVoters, which says how large an electorate that follows the living grows.
	MaxVoters = vote.MaxVoters

	// DefaultMaxVoters is the field MaxVoters when nothing else is said. Seven voters survive the loss of three; more make each lock slower.
	DefaultMaxVoters = electorate.MaxVoters

	// MaxPeers is how many addresses Peers may have. A few are enough to find all others; each is tried for as long as it is missing.
	MaxPeers = 256
)

// Config says who a node is and whom it trusts. The zero value of a field means its default where one is named, and is an error
// otherwise.
//
// Mesh, Voters, MaxTTL and Secret must be the same on every node of a mesh, and either all of them have a StateDir or none; a node that
// differs is refused, and its log and the others' name both values.
type Config struct {
	// Name is this node's name, unique in the mesh: up to 128 bytes of UTF-8 that can be printed, without spaces. A second live
	// process of the same name is refused. Default: the host's name. Set it when several nodes share a host, or hosts are renamed.
	Name string

	// Mesh is the name of the mesh, up to 128 bytes like Name. It keeps meshes apart that can reach each other. Default "default".
	Mesh string

	// Bind is the address that the node listens on, host:port, with TCP and UDP on the one port. Port 0 lets the system choose.
	// A host name or address limits it to one interface; an empty host is all of them. Default ":7950".
	Bind string

	// Advertise is the address at which others reach this node: host:port, or a host alone for the port that is listened on.
	// Default: what is listened on, where an open host is replaced by an address of this machine. Set it behind address
	// translation, or where a machine has several networks.
	Advertise string

	// Peers are addresses, host:port, of some other nodes, at least one of which should be up when this one starts. A name may stand for
	// several addresses and is looked up again at each try; they are tried for as long as the node runs. This node's own address
	// may be among them, so that all nodes can share one list. With StateDir, addresses of an earlier life are tried as well. Default: none, which
	// makes a node that waits to be found.
	Peers []string

	// Voters are the names of the nodes that grant locks: the electorate, of which a majority decides. Required.
	//
	// Three voters survive the loss of one, five of two. An even number survives no more than the odd number below it. More voters make
	// each lock a little slower. Nodes that are not on the list take locks and don't vote.
	//
	// The list is for ever, as far as running nodes go: changing it is safe only with all nodes stopped for the old MaxTTL,
	// since otherwise an old and a new majority need not share a voter.
	//
	// With StateDir the electorate follows the living, and Voters names its founders: those who voted in its first version. The list then
	// stays as it is, whoever votes later.
	Voters []string

	// StateDir is a directory that this node has for itself, on a local disk. With it the electorate follows the living: nodes that are gone are voted
	// out, others that stand by are voted in, up to MaxVoters. The directory keeps what this node has promised about that. Every node of the
	// mesh has one, or none has; it is made if it is missing. Default: none, and the electorate is fixed.
	//
	// A node whose directory is lost is a new peer, and is voted in again. An old copy must not be put back: it has forgotten what was
	// promised later.
	StateDir string

	// Found says that this node, one of Voters, is to found the electorate together with all the others, if its directory is empty. Set it for
	// the very first start of the founders, and take it out of the configuration as soon as the electorate is there: founders that have
	// all lost their directories would found a second mesh with it. A node with an empty directory and without Found waits until it meets
	// a node of the mesh, and is voted in. Left in, it is warned of at every start.
	Found bool

	// MaxVoters is how large the electorate grows that follows the living, at most the constant of the same name. It is odd in effect: an even
	// number survives no more than the odd number below it. Set it alike on all nodes: where it differs, the smallest
	// of those that are there counts. An electorate that is larger is made smaller, but never smaller than three for this. Only with
	// StateDir. Default 7.
	MaxVoters int

	// MaxTTL bounds for how long a lease can outlive its holder's last word, on every node, from MinTTL to LongestTTL. A voter that has
	// started is quiet for as long. Larger rides out longer interruptions; smaller hands over faster after a crash and restarts
	// sooner. Default 10 s.
	//
	// Raising it, or lowering it, is safe only with all nodes stopped for the old MaxTTL.
	MaxTTL time.Duration

	// TTL is for how long this node's leases outlive its last word, from MinTTL to MaxTTL. A node that should hand over fast after
	// a crash sets it lower than the others, at the cost of more frequent refreshes, five per TTL. Default MaxTTL.
	TTL time.Duration

	// Secret is what the nodes of the mesh share: MinSecretLen bytes or more, random. Whoever knows it is a member. It encrypts all
	// traffic. Empty, everything is plain text and anyone who can reach the port is a member; that is allowed only when Bind and
	// Advertise are loopback addresses, or with Insecure.
	Secret []byte

	// Insecure allows an empty Secret on addresses other than loopback. Use it only where the network itself is trusted.
	Insecure bool

	// Logger gets what an operator should know. Lines are handed to it by one goroutine, and dropped, with a count, while it is too slow.
	// Default: slog.Default().
	Logger *slog.Logger

	// Clock replaces the system's clocks, for tests: all readings derive from its Now, and all timers are its own.
	// Default (nil): the clocks of the system. Holders then measure with one that goes on while the machine is suspended,
	// where there is one, and with the wall clock where that ran further.
	Clock clock.Clock
}

// Validate returns all that is wrong with the configuration, joined, or nil. Each complaint is an ErrConfig and says what to change.
func (c Config) Validate() error {
	c, err := c.withDefaults()
	return errors.Join(err, c.check())
}

// withDefaults returns the configuration with its defaults filled in. It fails when there is none to be had.
func (c Config) withDefaults() (Config, error) {
	var err error
	if c.Name == "" {
		host, hostErr := os.Hostname()
		if hostErr != nil || host == "" {
			err = complaint("Name", "it is empty and the host has no name (%v); name the node", hostErr)
			host = "unnamed" // so that there is no second complaint
		}
		c.Name = host
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
	if c.MaxVoters == 0 && c.StateDir != "" {
		c.MaxVoters = DefaultMaxVoters
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Peers, c.Voters, c.Secret = slices.Clone(c.Peers), slices.Clone(c.Voters), slices.Clone(c.Secret)
	return c, err
}

func complaint(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrConfig, field, fmt.Sprintf(format, args...))
}

// check complains about a configuration that has its defaults.
func (c Config) check() error {
	var errs []error
	add := func(field, problem string) {
		if problem != "" {
			errs = append(errs, complaint(field, "%s", problem))
		}
	}
	add("Name", badName(c.Name))
	add("Mesh", badName(c.Mesh))
	bindHost, bindProblem := splitAddr(c.Bind, true)
	add("Bind", bindProblem)
	advertiseHost, advertiseProblem := bindHost, ""
	if c.Advertise != "" {
		advertiseHost, advertiseProblem = splitAdvertise(c.Advertise)
		add("Advertise", advertiseProblem)
	}
	if len(c.Peers) > MaxPeers {
		add("Peers", fmt.Sprintf("there are %d addresses, at most %d are tried; a few are enough", len(c.Peers), MaxPeers))
	}
	for _, p := range c.Peers {
		_, problem := splitAddr(p, false)
		add("Peers", problem)
	}
	errs = append(errs, c.checkVoters()...)
	c.checkFollowing(add)
	add("MaxTTL", badTTL(c.MaxTTL))
	switch problem := badTTL(c.TTL); {
	case problem != "" && c.TTL != c.MaxTTL:
		add("TTL", problem)
	case problem == "" && c.TTL > c.MaxTTL:
		add("TTL", fmt.Sprintf("%v is more than MaxTTL, which is %v; lower it, or raise MaxTTL on every node", c.TTL, c.MaxTTL))
	}
	switch {
	case len(c.Secret) == 0 && !c.Insecure && bindProblem == "" && advertiseProblem == "" && !(isLoopback(bindHost) && isLoopback(advertiseHost)):
		add("Secret", fmt.Sprintf("it is empty while %s can be reached from outside; set %d random bytes or more, the same on all nodes, "+
			"or bind to 127.0.0.1, or say Insecure if the network itself is trusted", c.reachable(bindHost), MinSecretLen))
	case len(c.Secret) > 0 && len(c.Secret) < MinSecretLen:
		add("Secret", fmt.Sprintf("it has %d bytes, fewer than %d; use random bytes, the same on all nodes", len(c.Secret), MinSecretLen))
	}
	return errors.Join(errs...)
}

// checkFollowing complains about what concerns an electorate that follows the living.
func (c Config) checkFollowing(add func(field, problem string)) {
	const fixed = "it concerns an electorate that follows the living, and StateDir is empty, so this one is fixed; "
	switch {
	case c.MaxVoters < 0:
		add("MaxVoters", fmt.Sprintf("%d is negative; zero means the default, %d", c.MaxVoters, DefaultMaxVoters))
	case c.MaxVoters > MaxVoters:
		add("MaxVoters", fmt.Sprintf("%d is more than %d, the largest electorate; a handful is enough, all other nodes still take locks", c.MaxVoters, MaxVoters))
	case c.MaxVoters > 0 && c.StateDir == "":
		add("MaxVoters", fixed+"leave MaxVoters out, or give every node a StateDir")
	}
	switch {
	case strings.ContainsRune(c.StateDir, 0):
		add("StateDir", fmt.Sprintf("%q has a zero byte, which no path may have", c.StateDir))
	case c.Found && c.StateDir == "":
		add("Found", fixed+"leave Found out, or give every node a StateDir")
	case c.Found && !slices.Contains(c.Voters, c.Name):
		add("Found", fmt.Sprintf("this node, %q, is none of the founders that Voters names; leave Found out: it is voted in", c.Name))
	}
}

// reachable names the address that makes a secret necessary.
func (c Config) reachable(bindHost string) string {
	if isLoopback(bindHost) {
		return "Advertise " + strconv.Quote(c.Advertise)
	}
	return "Bind " + strconv.Quote(c.Bind)
}

// checkVoters complains about an electorate of which no majority can exist: one of nobody, or one that counts a process twice.
func (c Config) checkVoters() (errs []error) {
	if len(c.Voters) == 0 {
		return []error{complaint("Voters", "nobody is named, and nobody has no majority; name the nodes that grant locks, such as three")}
	}
	if len(c.Voters) > MaxVoters {
		errs = append(errs, complaint("Voters", "%d are named, at most %d can vote; a handful is enough, all other nodes still take locks",
			len(c.Voters), MaxVoters))
	}
	seen := make(map[string]int, len(c.Voters))
	for _, v := range c.Voters {
		if problem := badName(v); problem != "" {
			errs = append(errs, complaint("Voters", "%s", problem))
		}
		seen[v]++
	}
	for _, v := range slices.Compact(slices.Sorted(slices.Values(c.Voters))) {
		if seen[v] > 1 {
			errs = append(errs, complaint("Voters", "%q is named %d times, but one process can't vote twice: "+
				"of %d voters a majority is %d, and there are only %d; name each once",
				v, seen[v], len(c.Voters), majority(len(c.Voters)), len(seen)))
		}
	}
	return errs
}

// badName says why something can't be the name of a node or of a mesh; empty when it can.
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
	}
	return ""
}

// badTTL says why a duration can't be a TTL; empty when it can.
func badTTL(d time.Duration) string {
	switch {
	case d < 0:
		return fmt.Sprintf("%v is negative; zero means the default", d)
	case d < MinTTL:
		return fmt.Sprintf("%v is less than %v, the least that refreshes can keep up", d, MinTTL)
	case d > LongestTTL:
		return fmt.Sprintf("%v is more than %v; after a crash keys stay blocked for as long, so choose seconds", d, LongestTTL)
	}
	return ""
}

// splitAddr returns the host of an address, or says what is wrong with it. Only what is listened on may leave the host open and the
// port to the system.
func splitAddr(addr string, listen bool) (host, problem string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Sprintf("%q is not host:port (%v)", addr, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil:
		return "", fmt.Sprintf("the port of %q is not a number from 0 to 65535", addr)
	case n == 0 && !listen:
		return "", fmt.Sprintf("the port of %q must be known to others; zero is for Bind only", addr)
	case host == "" && !listen:
		return "", fmt.Sprintf("%q has no host; others need one", addr)
	}
	return host, ""
}

// splitAdvertise does the same with an address that may lack its port.
func splitAdvertise(addr string) (host, problem string) {
	if _, err := netip.ParseAddr(addr); err == nil || addr != "" && !strings.Contains(addr, ":") {
		host = addr
	} else if host, problem = splitAddr(addr, false); problem != "" {
		return "", problem
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return "", fmt.Sprintf("nobody can dial %q; name an address of this machine", addr)
	}
	return host, ""
}

// isLoopback reports whether a host is reached from this machine only.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
