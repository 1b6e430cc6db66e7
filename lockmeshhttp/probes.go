package lockmeshhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh"
)

const (
	// DefaultReadyLimit is the default of [WithReadyLimit]: several times the length of a start.
	DefaultReadyLimit = 5 * time.Minute

	// DefaultDrainTime is how long /drain waits unless the request says otherwise. The default
	// leaves a few seconds of the 30 s in which Kubernetes has a pod end.
	DefaultDrainTime = 20 * time.Second

	// MaxDrainTime is the longest time in a request for /drain.
	MaxDrainTime = time.Hour

	// answerTime bounds the other answers. A probe of Kubernetes waits for a second by default.
	answerTime = 500 * time.Millisecond
)

// Option changes a handler.
type Option func(*Probes)

// WithReadyLimit has /readyz answer 200 after d, ready or not. Without a limit a mesh without a
// majority would stall a rollout, though the rollout may mend the mesh. Zero or less is no limit.
func WithReadyLimit(d time.Duration) Option { return func(p *Probes) { p.limit = d } }

// AllowDrain has the handler serve /drain. Any client within reach of the handler may then take
// this node out of service for locks, so don't allow /drain on a port open to others.
func AllowDrain() Option { return func(p *Probes) { p.drains = true } }

// Probes is the handler of a node's probes, made by [New]. Any goroutine may use Probes, and there
// is nothing to close.
type Probes struct {
	mesh           *lockmesh.Mesh
	limit          time.Duration
	drains         bool
	began          time.Time
	ready, settled latch
	mux            http.ServeMux
}

// latch remembers whether a condition was true once.
type latch struct{ atomic.Bool }

// New returns a handler for these paths; see the page docs/probes.md.
//
//	/livez             200 while the node runs, whatever the other nodes do; 503 after the end of
//	                   the mesh, if the node doesn't answer, or if it takes no part until it is
//	                   restarted, since another process had its name ([lockmesh.Mesh.Alive])
//	/readyz            200 once the node has been ready (see [lockmesh.Mesh.Ready]), and from then
//	                   on, until it drains or ends; also after the limit ([WithReadyLimit]). 503 in
//	                   any case while the other nodes refuse the node ([lockmesh.ErrRefused]), or
//	                   while the node doesn't answer
//	/readyz?settled=1  the same with [lockmesh.Mesh.Settled]: the gate of a rolling restart
//	/drain             with [AllowDrain]: calls [lockmesh.Mesh.Drain], and answers 200 when no lease
//	                   is held, or 503 after [DefaultDrainTime] or ?timeout=10s
//
// An answer that isn't 200 says why in a line of text. /readyz and /drain refuse a query with any
// other parameter with 400. New panics if mesh is nil.
func New(mesh *lockmesh.Mesh, opts ...Option) *Probes {
	if mesh == nil {
		panic("lockmeshhttp: New was called with a nil mesh")
	}
	p := &Probes{mesh: mesh, limit: DefaultReadyLimit, began: time.Now()}
	for _, o := range opts {
		if o != nil {
			o(p)
		}
	}
	p.mux.HandleFunc("GET /livez", p.serveLive)
	p.mux.HandleFunc("GET /readyz", p.serveReady)
	if p.drains {
		p.mux.HandleFunc("GET /drain", p.serveDrain) // a preStop hook of Kubernetes sends a GET
		p.mux.HandleFunc("POST /drain", p.serveDrain)
	}
	return p
}

// ServeHTTP implements [http.Handler].
func (p *Probes) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// say answers a request.
func say(w http.ResponseWriter, code int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // the client may be gone
}

// parameter returns the value of a request's only parameter, and whether it is given. A query with
// another parameter is an error: a probe with a mistyped gate would let a rollout through.
func parameter(r *http.Request, name string) (value string, given bool, err error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", false, fmt.Errorf("the query can't be read: %w", err)
	}
	values := query[name]
	switch {
	case len(query) > 1 || len(query) == 1 && values == nil:
		return "", false, fmt.Errorf("the query has another parameter than %s", name)
	case len(values) > 1:
		return "", false, fmt.Errorf("the query has %s more than once", name)
	case len(values) == 0:
		return "", false, nil
	}
	return values[0], true, nil
}

func (p *Probes) serveLive(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	if err := p.mesh.Alive(ctx); err != nil {
		say(w, http.StatusServiceUnavailable, oneLine(err))
		return
	}
	say(w, http.StatusOK, "the node runs")
}

func (p *Probes) serveReady(w http.ResponseWriter, r *http.Request) {
	is, wait, what := &p.ready, p.mesh.Ready, "ready"
	settled, given, err := parameter(r, "settled")
	switch {
	case err != nil:
		say(w, http.StatusBadRequest, err.Error())
		return
	case !given, settled == "0":
	case settled == "1":
		is, wait, what = &p.settled, p.mesh.Settled, "settled"
	default:
		say(w, http.StatusBadRequest, "settled is 1 or 0")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	if p.mesh.Draining() {
		say(w, http.StatusServiceUnavailable, "the node is draining, or has ended")
		return
	}
	if err := p.mesh.Alive(ctx); err != nil { // a silent node is never ready, limit or not
		say(w, http.StatusServiceUnavailable, oneLine(err))
		return
	}
	switch {
	case is.Load():
		err = p.refusal()
	default:
		if err = wait(ctx); err == nil {
			is.Store(true)
		}
	}
	switch waited := time.Since(p.began); {
	case err == nil:
		say(w, http.StatusOK, "the node is "+what+", or has been")
	case errors.Is(err, lockmesh.ErrClosed), errors.Is(err, lockmesh.ErrRefused):
		say(w, http.StatusServiceUnavailable, oneLine(err))
	case p.limit > 0 && waited >= p.limit && !(is == &p.settled && p.isUnfit()):
		say(w, http.StatusOK, fmt.Sprintf("the node isn't %s after %v, and is let through: %s", what, waited.Round(time.Second), oneLine(err)))
	default:
		say(w, http.StatusServiceUnavailable, oneLine(err))
	}
}

// isUnfit reports whether this node alone keeps itself from settling: the mesh grants locks, and
// this node can't use the register, or its disk. A rollout that goes on would replace each good
// process with such a process.
func (p *Probes) isUnfit() bool {
	s := p.mesh.Status().Electorate
	return s.Ready && s.Trouble != ""
}

// refusal returns why the other nodes refuse this node; nil if they don't. A refused node's calls
// fail until its configuration is mended, so no limit lets such a node through.
func (p *Probes) refusal() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // for the immediate result of Ready
	if err := p.mesh.Ready(ended); errors.Is(err, lockmesh.ErrRefused) {
		return err
	}
	return nil
}

func (p *Probes) serveDrain(w http.ResponseWriter, r *http.Request) {
	d := DefaultDrainTime
	text, given, err := parameter(r, "timeout")
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	if given {
		if d, err = time.ParseDuration(text); err != nil || d <= 0 || d > MaxDrainTime {
			say(w, http.StatusBadRequest, fmt.Sprintf("the timeout must be a duration such as 10s, up to %v", MaxDrainTime))
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	if err := p.mesh.Drain(ctx); err != nil {
		say(w, http.StatusServiceUnavailable, oneLine(err))
		return
	}
	say(w, http.StatusOK, "the node holds no lease, and takes no more locks")
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }
