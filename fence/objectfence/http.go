package objectfence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// DefaultMaxBytes is the default maximum size of an object: each write reads the whole object.
const DefaultMaxBytes = 64 << 20

// HTTP is a [Store] behind a server that supports strong ETags, If-Match and If-None-Match. No
// state is kept between calls. An HTTP may be used from any goroutine, as long as its fields don't
// change.
type HTTP struct {
	// Base is the URL to which names are relative: a bucket, for example. "a/b" is two path
	// segments below Base.
	Base *url.URL
	// Client sends the requests; nil is http.DefaultClient. Its Transport is the place for
	// additional requirements of the storage, such as a signature. Client must not resend a request
	// that the server may have received.
	Client *http.Client
	// TokenHeader is the name of the header that the storage keeps with the object, such as
	// x-ms-meta-token. Set TokenHeader only if each write yields a new ETag, even a write that
	// changes only this header. Empty means that the token is a line in front of the content, as by
	// [Encode], which works everywhere; readers remove the line with [Decode].
	TokenHeader string
	// MaxBytes is the maximum size of an object; 0 is [DefaultMaxBytes].
	MaxBytes int64
}

var _ Store = (*HTTP)(nil)

// Get requests the object. 404 means that there is no object.
func (h *HTTP) Get(ctx context.Context, name string) (Object, error) {
	resp, err := h.send(ctx, http.MethodGet, name, Object{})
	if err != nil {
		return Object{}, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return Object{}, nil
	case resp.StatusCode != http.StatusOK:
		return Object{}, statusError(resp)
	}
	o := Object{Version: Version(resp.Header.Get("ETag"))}
	if !strings.HasPrefix(string(o.Version), `"`) {
		return Object{}, fmt.Errorf("the server's ETag is %q: writes can only be made conditional on a strong one", o.Version)
	}
	limit := min(h.maxBytes(), math.MaxInt64-1) // an additional byte reveals a larger object
	if o.Data, err = io.ReadAll(io.LimitReader(resp.Body, limit+1)); err != nil {
		return Object{}, err
	}
	if int64(len(o.Data)) > limit {
		return Object{}, fmt.Errorf("the object has more than %d bytes", limit)
	}
	if h.TokenHeader == "" {
		o.Token, o.Data, err = Decode(o.Data)
	} else if number := resp.Header.Get(h.TokenHeader); number != "" {
		o.Token, err = parseToken(number)
	}
	if err != nil {
		return Object{}, err
	}
	return o, nil
}

// Put sends the object conditionally: If-Match with the version, or If-None-Match if there should
// be no object. The responses 412 and 409 mean that the object has changed; so does 404 if there
// should be an object.
func (h *HTTP) Put(ctx context.Context, name string, o Object) error {
	if h.TokenHeader == "" {
		o.Data = Encode(o.Token, o.Data)
	}
	if limit := h.maxBytes(); int64(len(o.Data)) > limit {
		return fmt.Errorf("the object has %d bytes, %d are allowed", len(o.Data), limit)
	}
	resp, err := h.send(ctx, http.MethodPut, name, o)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		return nil
	case http.StatusPreconditionFailed, http.StatusConflict:
		return ErrChanged
	case http.StatusNotFound:
		if o.Version != "" {
			return ErrChanged
		}
	}
	return statusError(resp)
}

// send sends a request and returns the response, if the response is to the same method.
func (h *HTTP) send(ctx context.Context, method, name string, o Object) (*http.Response, error) {
	if h.Base == nil {
		return nil, errors.New("no Base to send requests to")
	}
	if !fs.ValidPath(name) || name == "." {
		return nil, fmt.Errorf("%q is no path under the base", name)
	}
	var segments []string
	for segment := range strings.SplitSeq(name, "/") {
		segments = append(segments, url.PathEscape(segment))
	}
	req, err := http.NewRequestWithContext(ctx, method, h.Base.JoinPath(segments...).String(), bytes.NewReader(o.Data))
	if err != nil {
		return nil, err
	}
	// No cached response, and no compression, which would change the ETag.
	req.Header.Set("Cache-Control", "no-cache")
	req.Header.Set("Accept-Encoding", "identity")
	if method == http.MethodPut {
		if o.Version == "" {
			req.Header.Set("If-None-Match", "*")
		} else {
			req.Header.Set("If-Match", string(o.Version))
		}
		if h.TokenHeader != "" {
			req.Header.Set(h.TokenHeader, strconv.FormatUint(o.Token, 10))
		}
	}
	client := h.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	// The success of a redirected write would mean nothing: the answer may be a page to log in.
	if to := resp.Request; method == http.MethodPut && to.Response != nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the write was redirected to %s, and whether it was done isn't known: use the storage's own address", to.URL.Host)
	}
	return resp, nil
}

func (h *HTTP) maxBytes() int64 {
	if h.MaxBytes > 0 {
		return h.MaxBytes
	}
	return DefaultMaxBytes
}

// statusError converts an unexpected response to an error, with the beginning of the response's
// body.
func statusError(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // an unreadable body is left out
	return fmt.Errorf("the server answers %s: %s", resp.Status, bytes.TrimSpace(text))
}
