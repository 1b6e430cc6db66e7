package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh"
)

// Handler answers requests about a node, see [New]. A Handler may be used from any goroutine.
type Handler struct {
	mesh *lockmesh.Mesh
	log  *slog.Logger

	token               *[32]byte // the digest of the token; nil without a token
	openReads, openActs bool
	readOnly            bool
	maxTTL              time.Duration // zero without locks
	maxConns            int
	hosts               []string

	leases  leases
	slots   gauge // for the leases, and for the requests waiting for a lease
	holds   gauge
	streams gauge
	answers gauge
	actions gauge
	looks   looks
	decided decidedTTL

	closing context.Context // ends with Close
	close   context.CancelFunc

	ending    context.Context // ends when a request is about to end the node
	beginEnd  context.CancelFunc
	beforeEnd func(context.Context) error
}

// New returns the handler of a node. The application owns the mesh and closes it; the handler's
// answers then say that the mesh is closed. The routes:
//
//	GET    /v1/access                  what the sender of the request may do
//	GET    /v1/status                  the node's view of the mesh: ?key=
//	GET    /v1/members                 the nodes known to gossip
//	GET    /v1/electorate              the voters
//	GET    /v1/electorate/watch        the electorate, and each change of it, as events
//	GET    /v1/ready                   waits until locks can be granted: ?wait=
//	GET    /v1/settled                 waits until another node may be restarted: ?wait=
//	GET    /v1/locks                   keys in use, in pages: ?prefix= &after= &limit=
//	GET    /v1/locks/{key}             the holders and waiters of a key
//	GET    /v1/watch                   events of keys: ?key= or ?prefix=
//	GET    /v1/openapi.json            the description of all routes
//
//	POST   /v1/locks/{key}/revoke      asks the holders to release the key
//	POST   /v1/locks/{key}/evict       ends a lease against its holder's will
//	POST   /v1/drain                   takes no more locks, waits until none is held: ?wait=
//	POST   /v1/stop                    ends the node, which will be back: ?wait=
//	POST   /v1/leave                   ends the node for good: ?wait=
//	POST   /v1/recover                 names new voters when a majority is lost for good: ?wait=
//	                                   only over the socket of the node's own user
//
//	PUT    /v1/locks/{key}             takes a lock that ends after ?ttl=: ?wait= &mode= …
//	GET    /v1/leases/{id}             the state of a lease
//	POST   /v1/leases/{id}/extend      the lease lasts for ttl from now at least: ?ttl=
//	DELETE /v1/leases/{id}             releases a lease
//	PUT    /v1/hold/{key}              holds a lock while the connection lives; so does GET with a token
//
// GET / is a page for people. The page shows the same in a browser and lets an operator act. Any
// client may load the page, since the page itself has nothing of the mesh: all data come from the
// routes above, with the rights demanded by the routes.
//
// In a path, {key} is the whole rest, so slashes may be written as such or as %2F. A client that
// resolves "." and ".." in paths has to write the slashes beside the dots as %2F.
//
// Errors are an [Error] in JSON; its documentation lists codes and statuses. New panics if mesh is
// nil.
func New(mesh *lockmesh.Mesh, opts ...Option) *Handler {
	if mesh == nil {
		panic("admin: New was called with a nil mesh")
	}
	h := &Handler{
		mesh: mesh, log: slog.Default(), maxConns: MaxConns,
		slots:   gauge{most: MaxLeases, what: "leases of clients are held or waited for"},
		holds:   gauge{most: MaxHolds, what: "keys are held or waited for over connections"},
		streams: gauge{most: MaxStreams, what: "streams of events are open, or requests wait for a condition"},
		answers: gauge{most: MaxAnswers, what: "long answers are being written"},
		actions: gauge{most: MaxActions, what: "requests act"},
	}
	h.closing, h.close = context.WithCancel(context.Background())
	h.ending, h.beginEnd = context.WithCancel(context.Background())
	h.beforeEnd = func(context.Context) error { return nil }
	for _, o := range opts {
		o(h)
	}
	return h
}

// Close ends all streams and held connections, and has further requests fail with [ErrStopping].
// Close doesn't wait for their ends. An application calls Close before the Shutdown of its own
// [http.Server], which otherwise waits for the streams; [Serve] needs no Close.
//
// A client that holds a key over its connection is told, and keeps the key until it closes the
// connection, or until the lease's deadline. Leases of other clients last until their ends, since
// their clients can't be told. So the keys may be held for up to MaxTTL after Close:
// [lockmesh.Mesh.Stop] and Leave would release the keys at once. Call [lockmesh.Mesh.Drain] first,
// which waits for them, or [lockmesh.Mesh.Close].
func (h *Handler) Close() { h.close() }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(connectionKey{}).(*connection)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := func() { cancel(ErrStopping) }
	defer context.AfterFunc(h.closing, stop)()
	if conn != nil {
		defer context.AfterFunc(conn.serving, stop)()
	}
	x := &exchange{h: h, w: w, r: r, rc: http.NewResponseController(w), conn: conn, ctx: ctx, cancel: stop}
	if err := x.serve(); err != nil && !x.began {
		x.fail(err)
	}
}

// connection has Serve's facts about the connection of a request.
type connection struct {
	ownerOnly bool            // only this process's user, and root, could make the connection
	serving   context.Context // ends when Serve is to end
	vanished  *atomic.Bool    // the system has given up the connection, since the client is silent
}

// hasVanished reports whether the connection has ended without the client: by the loss of the
// client's machine, or of the network between, or since the client sent too much. An http.Server of
// the application can't tell.
func (c *connection) hasVanished() bool { return c != nil && c.vanished != nil && c.vanished.Load() }

type connectionKey struct{}

// gauge bounds how many of a kind there are at a time.
type gauge struct {
	mu      sync.Mutex
	n, most int
	what    string // completes "4096 …"
}

// take takes a place, and returns the function to give the place back. Requests without proof about
// their sender get half of the places, and so can't keep an operator out.
func (g *gauge) take(known bool) (func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.most
	if !known {
		most /= 2
	}
	if g.n >= most {
		return nil, failure(ErrLimit, "%d %s, the most allowed", g.n, g.what)
	}
	g.n++
	return g.give, nil
}

func (g *gauge) give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
}

// decidedTTL remembers the voters' decided maximum TTL, and the node's own TTL, for a second.
type decidedTTL struct {
	mu  sync.Mutex
	at  time.Time
	ttl time.Duration // zero if the voters have decided on none
	own time.Duration
}

// forget has the next call ask the node again.
func (d *decidedTTL) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = time.Time{}
}

// longestTTL returns the longest length of a lease kept by the voters after any fate of this node.
func (h *Handler) longestTTL() time.Duration {
	if decided, _ := h.ttls(); decided > 0 {
		return min(decided, h.maxTTL)
	}
	return h.maxTTL
}

// ttls returns the voters' decided maximum TTL, zero if there is none, and the node's own TTL.
func (h *Handler) ttls() (decided, own time.Duration) {
	d := &h.decided
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.at.IsZero() || now.Sub(d.at) > time.Second {
		// A status takes time in proportion to the leases of the node.
		s := h.mesh.Status()
		d.at, d.ttl, d.own = now, s.Electorate.MaxTTL, s.TTL
	}
	return d.ttl, d.own
}

// isStopping reports whether a context has ended because the server stops.
func isStopping(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrStopping) }
