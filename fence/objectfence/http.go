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

// DefaultMaxBytes is how large an object may be unless told otherwise: it is read as a whole with each write.
const DefaultMaxBytes = 64 << 20

// HTTP is a [Store] behind a server that knows strong ETags, If-Match and If-None-Match. Nothing is kept between calls. It
// may be used from any goroutine, as long as its fields stay as they are.
type HTTP struct {
	// Base is where the names begin: a bucket, for one. "a/b" is two segments of the path under it.
	Base *url.URL
	// Client sends the requests; nil is http.DefaultClient. Its Transport is the place for what the storage wants to see besides, such as a
	// signature. It must not send a request again that the server may have received.
	Client *http.Client
	// TokenHeader names the header that the storage keeps with the object, such as x-ms-meta-token. Only take one if
	// each write gives a new ETag, even if it changes nothing but that header. Empty means that the token is a line in front of the content,
	// as by [Encode], which is right everywhere; readers take it off by [Decode].
	TokenHeader string
	// MaxBytes is how large an object may be; 0 is [DefaultMaxBytes].
	MaxBytes int64
}

var _ Store = (*HTTP)(nil)

// Get asks for the object. 404 means that there is none.
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
		return Object{}, unexpected(resp)
	}
	o := Object{Version: Version(resp.Header.Get("ETag"))}
	if !strings.HasPrefix(string(o.Version), `"`) {
		return Object{}, fmt.Errorf("the server's ETag is %q: writes can only be made conditional on a strong one", o.Version)
	}
	limit := min(h.maxBytes(), math.MaxInt64-1) // one more shows that there is more
	if o.Data, err = io.ReadAll(io.LimitReader(resp.Body, limit+1)); err != nil {
		return Object{}, err
	}
	if int64(len(o.Data)) > limit {
		return Object{}, fmt.Errorf("the object has more than %d bytes", limit)
	}
	if h.TokenHeader == "" {
		o.Token, o.Data, err = Decode(o.Data)
	} else if number := resp.Header.Get(h.TokenHeader); number != "" {
		o.Token, err = parse(number)
	}
	if err != nil {
		return Object{}, err
	}
	return o, nil
}

// Put sends the object on a condition: If-Match with the version, or If-None-Match if there should be none. The answers 412 and 409 mean
// that it has changed; so does 404 if one should be there.
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
	return unexpected(resp)
}

// send sends a request and returns the answer to that very method.
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
	// Neither a cache nor a packed form, which would have another ETag.
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
	if got := resp.Request.Method; got != method { // some redirects make a GET of a PUT, whose success would mean nothing
		_ = resp.Body.Close()
		return nil, fmt.Errorf("a redirect has made a %s of a %s", got, method)
	}
	return resp, nil
}

func (h *HTTP) maxBytes() int64 {
	if h.MaxBytes > 0 {
		return h.MaxBytes
	}
	return DefaultMaxBytes
}

// unexpected is an answer that means nothing to us, with the beginning of what the server says about it.
func unexpected(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // what can't be read isn't shown
	return fmt.Errorf("the server answers %s: %s", resp.Status, bytes.TrimSpace(text))
}
