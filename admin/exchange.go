package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// exchange is a request and its answer.
type exchange struct {
	h           *Handler
	w           http.ResponseWriter
	r           *http.Request
	rc          *http.ResponseController
	conn        *connection     // nil without Serve
	ctx         context.Context // ends when the client is gone, or the server stops
	cancel      func()          // ends ctx as the stop of the server does
	route       *route
	proven      bool   // the request has the token
	known       bool   // the request proves the right to act
	foreignHost bool   // the Host header may have been chosen by a foreign page
	param       string // the key, or the id of a lease
	query       url.Values
	body        []byte
	began       bool // the answer has begun
}

// serve answers the request, or returns an error to be answered.
func (x *exchange) serve() error {
	x.boundBody()
	if file, err := pageAt(x.r.URL.Path); file != nil || err != nil {
		return x.servePage(file, err)
	}
	rt, param, allowed := match(x.r.Method, x.r.URL.Path)
	switch {
	case rt != nil:
		x.route, x.param = rt, param
	case allowed != nil:
		x.w.Header().Set("Allow", strings.Join(allowed, ", "))
		return withStatus(http.StatusMethodNotAllowed, failure(ErrRequest, "%s isn't possible here; %s is", x.r.Method, strings.Join(allowed, " or ")))
	default:
		return withStatus(http.StatusNotFound, failure(ErrRequest, "there is no %q", x.r.URL.Path))
	}
	if err := x.authorize(); err != nil {
		return err
	}
	if x.h.closing.Err() != nil || x.conn != nil && x.conn.serving.Err() != nil {
		return ErrStopping
	}
	if err := x.readQuery(); err != nil {
		return err
	}
	if err := x.readBody(); err != nil {
		return err
	}
	for _, limit := range []struct {
		applies bool
		gauge   *gauge
	}{{rt.long, &x.h.answers}, {rt.needs.acts(), &x.h.actions}} {
		if limit.applies {
			give, err := limit.gauge.take(x.known)
			if err != nil {
				return err
			}
			defer give()
		}
	}
	return rt.serve(x)
}

// readQuery parses the query. An unknown parameter is an error: the parameter may be misspelt.
func (x *exchange) readQuery() error {
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return failure(ErrRequest, "the query can't be read: %v", err)
	}
	for name, values := range query {
		switch {
		case !slices.Contains(x.route.query, name):
			return failure(ErrRequest, "there is no parameter %q here; there are: %s", name, listOr(x.route.query, "none"))
		case len(values) > 1:
			return failure(ErrRequest, "the parameter %q is given %d times", name, len(values))
		}
	}
	x.query = query
	return nil
}

func listOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}

// boundBody bounds the time of the body. The server closes the connection behind an answer that
// comes before the whole body was read, as an error does: else the server would read the rest
// before the answer, to no purpose. readBody removes both.
func (x *exchange) boundBody() {
	if x.r.Body == nil || x.r.ContentLength == 0 { // a body of unknown length has the length -1
		return
	}
	_ = x.rc.SetReadDeadline(time.Now().Add(bodyTime)) // not every server has deadlines
	if x.r.ProtoMajor == 1 {                           // HTTP/2 ends the stream alone
		x.w.Header().Set("Connection", "close")
	}
}

// readBody reads the whole body, which is bounded in length and time. The server notices the loss
// of a client only after reading all of a body.
func (x *exchange) readBody() error {
	if x.r.Body == nil || x.r.Body == http.NoBody {
		// The application's server may have set a deadline; a deadline would end a long wait.
		_ = x.rc.SetReadDeadline(time.Time{}) // not every server has deadlines
		return nil
	}
	most := int64(MaxBody)
	if !x.route.body {
		most = 0
	}
	// The stop of the server isn't to wait for a body.
	reading := context.AfterFunc(x.ctx, func() { _ = x.rc.SetReadDeadline(time.Now()) })
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, most))
	if !reading() && isStopping(x.ctx) {
		return ErrStopping
	}
	var long *http.MaxBytesError
	switch {
	case err == nil:
		_ = x.rc.SetReadDeadline(time.Time{})
		x.w.Header().Del("Connection")
		x.body = body
		return nil
	case errors.As(err, &long) && most == 0:
		err = failure(ErrRequest, "the request has a body, and takes none; parameters go into the query")
	case errors.As(err, &long):
		err = withStatus(http.StatusRequestEntityTooLarge, failure(ErrRequest, "the body has more than %d bytes", most))
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = failure(ErrRequest, "the body didn't arrive within %v", bodyTime)
	default:
		err = failure(ErrRequest, "the body can't be read: %v", err)
	}
	return err
}

// decode reads the body's JSON into v. An empty body leaves v unchanged.
func (x *exchange) decode(v any) error {
	if len(bytes.TrimSpace(x.body)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(x.body))
	d.DisallowUnknownFields() // a misspelt field must not pass for a missing field
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more follows the JSON value")
		}
	}
	if err != nil {
		return failure(ErrRequest, "the body can't be read: %v", err)
	}
	return nil
}

// duration returns a parameter with a duration; or if the request has none.
func (x *exchange) duration(name string, or, most time.Duration) (time.Duration, error) {
	text := x.query.Get(name)
	if text == "" {
		return or, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d > most && name == "ttl" {
		return 0, failure(ErrRequest, "ttl=%q is longer than %v: the voters keep a key for the mesh's MaxTTL "+
			"at most after a crash of the node, and the node may allow less", text, most)
	}
	if err != nil || d < 0 || d > most {
		return 0, failure(ErrRequest, "%s=%q: a duration such as 30s or 1m30s is needed, up to %v", name, text, most)
	}
	return d, nil
}

// number returns a parameter with a number; zero if the request has none.
func (x *exchange) number(name string, most int) (int, error) {
	text := x.query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, failure(ErrRequest, "%s=%q: a number from 1 to %d is needed", name, text, most)
	}
	return n, nil
}

// patient returns a context for a call with the wait of the request. The context ends when the
// server stops, but not with the client.
func (x *exchange) patient(or time.Duration) (context.Context, context.CancelFunc, error) {
	wait, err := x.duration("wait", or, MaxWait)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	ctx, stop := context.WithCancelCause(ctx)
	ends := []func() bool{context.AfterFunc(x.h.closing, func() { stop(ErrStopping) })}
	if x.conn != nil {
		ends = append(ends, context.AfterFunc(x.conn.serving, func() { stop(ErrStopping) }))
	}
	return ctx, func() {
		for _, end := range ends {
			end()
		}
		stop(nil)
		cancel()
	}, nil
}

// header sets the headers of every answer.
func (x *exchange) header(contentType string) {
	h := x.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// answer writes v as JSON. After an error the client may not have got the answer.
func (x *exchange) answer(status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return x.write(status, append(data, '\n'))
}

// write answers with ready JSON. Nothing is left in a buffer: the server's writes after the return
// of the handler have no deadline.
func (x *exchange) write(status int, data []byte) error {
	x.began = true
	x.header("application/json")
	if status != http.StatusNoContent {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	_ = x.rc.SetWriteDeadline(time.Now().Add(writeTime))
	x.w.WriteHeader(status)
	var err error
	for piece := range slices.Chunk(data, writePiece) {
		if !isStopping(x.ctx) { // the stop of the server waits for a single piece, not for all
			_ = x.rc.SetWriteDeadline(time.Now().Add(writeTime))
		}
		if _, err = x.w.Write(piece); err != nil {
			break
		}
	}
	if err == nil {
		if err = x.rc.Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil // the server will write the rest
		}
	}
	if err == nil {
		// The connection may carry other answers of the application.
		_ = x.rc.SetWriteDeadline(time.Time{})
	}
	return err
}

// done answers a request without further text.
func (x *exchange) done() error { return x.write(http.StatusNoContent, nil) }

// fail answers with an error.
func (x *exchange) fail(err error) {
	e := errorOf(err)
	switch e.Status {
	case http.StatusTooManyRequests:
		x.w.Header().Set("Retry-After", "1")
	case http.StatusUnauthorized:
		x.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	_ = x.answer(e.Status, e) // the client may be gone
}
