package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxAnswer is the length of the longest answer read by a client, in bytes: several times a
	// page of [lockmesh.MaxPageKeys] keys with the longest values.
	maxAnswer = 64 << 20

	// maxLine is the length of the longest event or line that a client reads, in bytes: an
	// electorate of [lockmesh.MaxVoters] with long texts is some dozens of kilobytes.
	maxLine = 1 << 20
)

// Client calls a [Handler] from another process. The methods may be called from any goroutine.
//
// An error of the server is an [*Error]; errors.Is finds the errors of package lockmesh and of this
// package. [ErrNoAnswer] has one of three causes: the client didn't reach the server, the server's
// answer was lost (the call may have had its effect), or ctx has ended.
type Client struct {
	// HTTP sends the requests. Replace HTTP before the first call, for a proxy or your own
	// certificates; HTTP must have no Timeout, since a Timeout would end streams.
	HTTP *http.Client

	base, token, address string
	local                bool // the node runs on this machine
}

// NewClient returns a client of the node at an address: the path of a unix socket, which begins
// with "/", "." or "unix:", or a URL with http:// or https://. The token is the handler's token,
// and may be empty over a unix socket. Use http:// with a token on loopback or a trusted network
// only: a reader of the traffic learns the token.
//
// NewClient doesn't connect. Close the client to end its idle connections.
func NewClient(address, token string) (*Client, error) {
	if token != "" {
		if err := CheckToken(token); err != nil {
			return nil, err
		}
	}
	c := &Client{address: address, token: token}
	transport := &http.Transport{ResponseHeaderTimeout: 0, MaxResponseHeaderBytes: 1 << 16, ForceAttemptHTTP2: true}
	if path, isUnix := socketPath(address); isUnix {
		c.base, c.local = "http://localhost", true
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	} else {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return nil, fmt.Errorf("admin: the address %q is neither the path of a socket nor a URL such as http://127.0.0.1:7951; "+
				"write ./NAME for a socket in the present directory", address)
		}
		c.base = strings.TrimSuffix(u.String(), "/")
	}
	c.HTTP = &http.Client{
		Transport: transport,
		// The token is for this server only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// socketPath returns the path of a unix socket if the address names a socket.
func socketPath(address string) (string, bool) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return strings.TrimPrefix(path, "//"), true
	}
	return address, strings.HasPrefix(address, "/") || strings.HasPrefix(address, ".")
}

// Close closes idle connections. Calls under way, streams and holds aren't affected.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// keyPath returns a path with a key at the end. The slashes in a key are escaped, and so are dots,
// if a proxy would take the dots for parts of the path.
func keyPath(before, key, after string) string {
	escaped := url.PathEscape(key)
	if strings.Trim(escaped, ".") == "" {
		escaped = strings.ReplaceAll(escaped, ".", "%2E")
	}
	return before + escaped + after
}

// send sends a request, and returns an answer without an error. The caller closes the body.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.HTTP.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the URL has the query, perhaps a long text
		}
		return nil, &unanswered{"admin: no answer from the node at " + c.address, err}
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, readError(answer)
}

// readError reads the error in an answer.
func readError(answer *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxLine))
	if err != nil {
		return &unanswered{"admin: the answer broke off", err}
	}
	e := new(Error)
	if err := json.Unmarshal(data, e); err != nil || e.Code == "" {
		return fmt.Errorf("admin: the answer %q isn't from a lockmesh admin server: check the address", answer.Status)
	}
	e.Status = answer.StatusCode
	return e
}

// call sends a request and reads the answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, out any) error {
	answer, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if out == nil {
		if _, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)); err != nil {
			return &unanswered{"admin: the answer broke off", err}
		}
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return &unanswered{"admin: the answer broke off", err}
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("admin: the answer can't be read: %w", err)
	}
	return nil
}

// get returns the answer of a GET.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	out := new(T)
	if err := c.call(ctx, http.MethodGet, path, query, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// waitQuery returns a query with a wait; none for zero.
func waitQuery(wait time.Duration) url.Values {
	query := url.Values{}
	if wait != 0 {
		query.Set("wait", wait.String())
	}
	return query
}
