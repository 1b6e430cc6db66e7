package main

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"time"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("").Parse(pageSource))

const (
	// headerTime is how long a browser may take to send its request headers.
	headerTime = 5 * time.Second
	// beat is the longest silence on a stream, so that proxies keep the stream open.
	beat = 15 * time.Second
)

// page serves the state of a board over HTTP.
type page struct {
	board  *board
	server *http.Server
	addr   string
	stop   context.CancelFunc // ends the streams
	served chan struct{}      // closed when the server has ended
}

// openPage listens, and serves until close.
func openPage(addr string, b *board) (*page, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("-http: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &page{board: b, addr: l.Addr().String(), stop: stop, served: make(chan struct{})}
	p.server = &http.Server{
		Handler: p.routes(), ReadHeaderTimeout: headerTime,
		BaseContext: func(net.Listener) context.Context { return ctx },
		// Disconnecting browsers are no news.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l) // ends after close
	}()
	return p, nil
}

func (p *page) url() string { return "http://" + p.addr + "/" }

// close ends the page and its streams at once.
func (p *page) close() {
	p.stop()
	_ = p.server.Close() // there is nothing to save
	<-p.served
}

func (p *page) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.show)
	mux.HandleFunc("GET /events", p.stream)
	mux.HandleFunc("GET /state.json", p.serveState)
	mux.HandleFunc("GET /healthz", p.health)
	return mux
}

// show serves the page.
func (p *page) show(w http.ResponseWriter, _ *http.Request) {
	s, _ := p.board.snapshot()
	nonce := rand.Text()
	var b bytes.Buffer
	err := pageTemplate.ExecuteTemplate(&b, "page", struct {
		state
		Nonce string
	}{s, nonce})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; img-src data:; style-src 'nonce-"+nonce+"'; script-src 'nonce-"+nonce+
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, _ = b.WriteTo(w)
}

// stream sends the changing parts of the page on each change.
func (p *page) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		s, change := p.board.snapshot()
		parts, err := render(s)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", parts); err != nil || out.Flush() != nil {
			return
		}
		for waits := true; waits; {
			select {
			case <-change:
				waits = false
			case <-t.C:
				if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil || out.Flush() != nil {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}

// render returns the changing parts of the page, as a line of JSON.
func render(s state) ([]byte, error) {
	parts := make(map[string]string)
	for _, name := range []string{"title", "news", "live"} {
		var b bytes.Buffer
		if err := pageTemplate.ExecuteTemplate(&b, name, s); err != nil {
			return nil, err
		}
		parts[name] = b.String()
	}
	return json.Marshal(parts)
}

// serveState serves the state to programs.
func (p *page) serveState(w http.ResponseWriter, _ *http.Request) {
	s, _ := p.board.snapshot()
	writeJSON(w, http.StatusOK, s)
}

// health reports whether this node could learn of a leader and become the leader.
func (p *page) health(w http.ResponseWriter, _ *http.Request) {
	s, _ := p.board.snapshot()
	code := http.StatusOK
	if !s.Ready {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, struct {
		Node   string
		Ready  bool
		Leads  bool
		Leader string `json:",omitempty"`
	}{s.Node, s.Ready, s.Leader != nil && s.Leader.Node == s.Node, leaderName(s)})
}

func leaderName(s state) string {
	if s.Leader == nil {
		return ""
	}
	return s.Leader.Node
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the client may be gone
}
