package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

const (
	// MaxLeases is how many leases clients can hold at a time through one handler, not counting the
	// leases of open connections (see MaxHolds). A lease takes about a kilobyte here and at each
	// voter.
	MaxLeases = 4096

	// MaxHolds is how many connections can hold a key, or wait to hold a key, at a time. Each
	// connection has a goroutine and a lease, and the node renews the lease.
	MaxHolds = 4096

	// MaxStreams is how many streams of events, of keys and of the electorate, can be open at a
	// time, together with requests that wait for the node to be ready or settled. MaxStreams leaves
	// three quarters of [lockmesh.MaxWatches] to the application.
	MaxStreams = 256

	// MaxAnswers is how many long answers can be prepared or written at a time: pages of keys,
	// which may have some megabytes each, single keys and the status.
	MaxAnswers = 64

	// MaxActions is how many requests can act at a time, or wait for the end of their action. An
	// operator has a few such requests; an action goes on when its client is gone, so the number of
	// connections doesn't bound them.
	MaxActions = 64

	// MaxConns is how many connections [Serve] keeps open at a time, unless [WithMaxConns] says
	// less. Further connections are answered 503. It exceeds MaxHolds, MaxStreams, MaxAnswers and
	// MaxActions together. Each call of Serve has its own limit: clients over TCP can't keep an
	// operator from the socket.
	MaxConns = 8192

	// MaxBody is the length of the longest body of a request in bytes. The longest legitimate body
	// names some dozens of voters.
	MaxBody = 64 << 10

	// MaxWait is the longest wait of a request. A request waiting for more than a day was most
	// likely forgotten.
	MaxWait = 24 * time.Hour

	// MinTokenLen is the least length of a token in bytes: 128 random bits can't be guessed.
	MinTokenLen = 16

	// maxEnded is how many ended leases are remembered, so that their clients learn why they ended.
	maxEnded = 4096

	// actWait is how long an acting request waits unless the request says otherwise: several
	// MaxTTL, for leaving.
	actWait = time.Minute

	// evictWait is how long an eviction waits unless the request says otherwise: as long as a
	// crashed node's lease lasts, with the default MaxTTL, and some more.
	evictWait = 30 * time.Second

	// bodyTime is how long the body of a request may take to arrive. The longest body is sent in
	// milliseconds.
	bodyTime = 10 * time.Second

	// writePiece is how many bytes of an answer are written within writeTime, so a slow but steady
	// reader isn't cut: 52 kbit/s are enough.
	writePiece = 64 << 10

	// writeTime is how long a client may take to read before the connection is cut. The system
	// buffers some hundred kilobytes, so only a client that has stopped reading takes so long.
	writeTime = 10 * time.Second

	// lastLineTime is how long the release of a hold waits for its last line to be written, which
	// few clients read: most have closed the connection.
	lastLineTime = 100 * time.Millisecond

	// beatTime is the pause between heartbeats of a stream of events: shorter than the idle
	// timeouts of common proxies, 30 s and more.
	beatTime = 15 * time.Second

	// holdBeatTime is the longest pause between the lines of a held connection.
	holdBeatTime = 5 * time.Second

	// vanishTime is how long after a line a client over TCP without any acknowledgement counts as
	// vanished, where the system can tell (Linux): several retransmissions, on a network that loses
	// packets.
	vanishTime = 20 * time.Second

	// holdBeatLeast is the shortest such pause, for leases of the shortest TTL.
	holdBeatLeast = 50 * time.Millisecond

	// farewellTime is how long the server, when stopped, keeps the connection of a client with a
	// key, so that the key is free as soon as the client has ended its work: longer than the grace
	// of `lockmesh run` with the default MaxTTL. After this time the key is kept without the
	// connection, until the lease's deadline as the client knows it.
	farewellTime = 3 * time.Second

	// releaseTime is how long an unlock of a client's lease is waited for, here and by a [Hold].
	// The release was sent before.
	releaseTime = 5 * time.Second

	// releaseLeast is how long a [Hold] waits for its unlock also beyond the end of the lease: a
	// busy node may take as long to answer.
	releaseLeast = time.Second

	// headerTime is how long the header of a request may take to arrive.
	headerTime = 10 * time.Second

	// idleTime is how long a connection stays open without a request.
	idleTime = 2 * time.Minute

	// maxHeader is the length of the longest header in bytes: a value of [lockmesh.MaxValueLen]
	// bytes, percent-encoded in a query, is 12 KiB.
	maxHeader = 24 << 10

	// maxMessage is the length of the longest message of an error in bytes. Messages quote the
	// content of a request.
	maxMessage = 2 << 10

	// stopTime is how long [Serve], when stopped, waits for the ends of requests before cutting
	// their connections: longer than writeTime, farewellTime and releaseTime one after the other.
	stopTime = 20 * time.Second

	// maxRefusals is how many clients without a place are refused at a time after their requests
	// were read (fewer where WithMaxConns leaves few file descriptors), and refuseTime how long
	// such a client may take to send the request, and to read the answer. A client beyond is
	// refused at once.
	maxRefusals = 64
	refuseTime  = time.Second

	// logPause is the pause between lines of the log about the same complaint of a listener.
	logPause = time.Minute

	// lookTime is how long a refused request for a lock looks for the present holders, for its
	// answer. A majority answers within milliseconds or not at all.
	lookTime = time.Second

	// lookAge is how long the present holders are kept for the answers to further refused requests.
	// So the holders in an answer are up to lookTime and lookAge old. A caller that tries again
	// later sees the next holder.
	lookAge = 200 * time.Millisecond

	// maxLooks is of how many keys the present holders are kept: a state has up to 1,024 waiters.
	maxLooks = 256
)

// Option changes a handler made by [New].
type Option func(*Handler)

// WithToken sets the token of requests ("Authorization: Bearer TOKEN"). Requests over a socket made
// by [Listen] need no token. With the token a request may read and act, except recover; a request
// without the token and not over such a socket gets no answer, unless other options allow the
// request. WithToken panics with the text of [CheckToken] if the token can't be used.
func WithToken(token string) Option {
	if err := CheckToken(token); err != nil {
		panic(err.Error())
	}
	return func(h *Handler) { h.token = new(sha256.Sum256([]byte(token))) }
}

// CheckToken returns why a token can't be used, or nil: a token has at least [MinTokenLen] bytes,
// all of them printable ASCII other than blanks. Check a token from a configuration before passing
// the token to [WithToken]. The error doesn't contain the token.
func CheckToken(token string) error {
	if len(token) < MinTokenLen {
		return fmt.Errorf("admin: the token has %d bytes, fewer than %d; use random ones", len(token), MinTokenLen)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("admin: the token has other characters than printable ASCII; use letters and digits")
	}
	return nil
}

// AllowReads allows reads without the token of [WithToken]: a status page for all, while only
// requests with the token act. Readers see the names of keys and nodes, addresses, and the values
// of leases.
func AllowReads() Option { return func(h *Handler) { h.openReads = true } }

// AllowActions lets every request that reaches the handler read, act, and take locks with
// [AllowLocks], without a token: for an application that checks each request before the handler
// gets the request. The option changes nothing where a token is set. [Serve] refuses the
// option on TCP without a token, since nothing checks requests there.
func AllowActions() Option { return func(h *Handler) { h.openActs = true } }

// ReadOnly refuses every action, over the owner's socket, too. [AllowLocks] alone allows locks.
func ReadOnly() Option { return func(h *Handler) { h.readOnly = true } }

// AllowLocks makes the handler an agent: clients take, extend and release locks, and hold keys for
// the length of a connection. maxTTL is the longest ttl of a lease that a client must extend; pass
// [lockmesh.Config].MaxTTL. (The voters keep a key for no longer after a crash of this node, so a
// client with a longer lease would rely on a node that may be gone.) While the voters have decided
// on a smaller maximum, the smaller value counts. At its end the application calls
// [lockmesh.Mesh.Drain] after [Serve], since Stop and Leave would release these leases before their
// clients know. AllowLocks panics if maxTTL isn't positive.
func AllowLocks(maxTTL time.Duration) Option {
	if maxTTL <= 0 {
		panic(fmt.Sprintf("admin: AllowLocks(%v): pass the MaxTTL of the mesh, or lockmesh.DefaultMaxTTL", maxTTL))
	}
	return func(h *Handler) { h.maxTTL = maxTTL }
}

// AllowHosts adds names by which clients reach the handler over TCP, without ports. A request
// without the token must name a host on this list, localhost or an IP address in its Host header:
// otherwise a page of another site, with a name that the site resolves to this machine, could read
// the answers in the browser of someone who can reach the handler.
func AllowHosts(names ...string) Option {
	names = slices.Clone(names)
	return func(h *Handler) { h.hosts = append(h.hosts, names...) }
}

// WithMaxConns sets how many connections each call of [Serve] keeps open at a time, instead of
// [MaxConns]. Each connection takes a file descriptor: a process whose descriptors are all taken by
// clients can't accept or open connections to other nodes. WithMaxConns panics if n isn't from 1 to
// MaxConns.
func WithMaxConns(n int) Option {
	if n < 1 || n > MaxConns {
		panic(fmt.Sprintf("admin: WithMaxConns(%d): a number from 1 to MaxConns, %d, is needed", n, MaxConns))
	}
	return func(h *Handler) { h.maxConns = n }
}

// WithBeforeEnd has the requests stop and leave call f before the end of the node, when no client
// of the handler has a lease any more. The end releases all leases of the node, so f waits for the
// leases of other users, if these users can't be told about the end. f gets a context with the wait
// of the request. If f returns an error, the mesh is closed instead, without releasing anything:
// the keys are free when their times are over. The calls may come from several goroutines.
func WithBeforeEnd(f func(ctx context.Context) error) Option {
	return func(h *Handler) { h.beforeEnd = f }
}

// WithLogger sets the destination of log lines: each acting request, complaints of listeners (once
// a minute), and complaints of the HTTP server at Debug. Default: [slog.Default]. The lines have no
// tokens. A nil logger stands for the default.
func WithLogger(l *slog.Logger) Option {
	return func(h *Handler) {
		if l != nil {
			h.log = l
		}
	}
}
