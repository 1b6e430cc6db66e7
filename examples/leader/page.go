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
	// headerTime is how long a browser may take to say what it wants.
	headerTime = 5 * time.Second
	// beat is how often a stream says something at least, so that whatever is between keeps it open.
	beat = 15 * time.Second
)

// page serves what a board shows.
type page struct {
	board  *board
	server *http.Server
	addr   string
	stop   context.CancelFunc // ends the streams
	served chan struct{}      // closed when it has ended
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
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // browsers that go away are no news
	}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l) // it ends when close says so
	}()
	return p, nil
}

func (p *page) url() string { return "http://" + p.addr + "/" }

// close ends the page at once; streams too.
func (p *page) close() {
	p.stop()
	_ = p.server.Close() // there is nothing to be saved
	<-p.served
}

func (p *page) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.show)
	mux.HandleFunc("GET /events", p.stream)
	mux.HandleFunc("GET /state.json", p.tell)
	mux.HandleFunc("GET /healthz", p.health)
	return mux
}

// show serves the page.
func (p *page) show(w http.ResponseWriter, _ *http.Request) {
	s, _ := p.board.look()
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

// stream sends the parts of the page that change, each time that they do.
func (p *page) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		s, change := p.board.look()
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

// render returns the parts of the page that change, as one line of JSON.
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

// tell serves the state to programs.
func (p *page) tell(w http.ResponseWriter, _ *http.Request) {
	s, _ := p.board.look()
	writeJSON(w, http.StatusOK, s)
}

// health says whether this node could hear of a leader and become one.
func (p *page) health(w http.ResponseWriter, _ *http.Request) {
	s, _ := p.board.look()
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
	_ = e.Encode(v) // whoever asked may have gone
}
