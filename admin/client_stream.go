package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
)

// Watch returns an iterator over the events of a key, beginning with the present state, see
// [lockmesh.Mesh.Watch]. The iterator ends with an error: ctx's, the server's, or the connection's.
func (c *Client) Watch(ctx context.Context, key string) iter.Seq2[Event, error] {
	return watch[Event](ctx, c, "/v1/watch", url.Values{"key": {key}})
}

// WatchPrefix is [Client.Watch] for all keys with a prefix; an empty prefix means all keys.
func (c *Client) WatchPrefix(ctx context.Context, prefix string) iter.Seq2[Event, error] {
	return watch[Event](ctx, c, "/v1/watch", url.Values{"prefix": {prefix}})
}

// WatchElectorate returns an iterator over the electorate and its changes, see
// [lockmesh.Mesh.WatchElectorate]. The iterator ends with an error, as for [Client.Watch].
func (c *Client) WatchElectorate(ctx context.Context) iter.Seq2[Electorate, error] {
	return watch[Electorate](ctx, c, "/v1/electorate/watch", nil)
}

// watch reads a stream of server-sent events. The connection is closed when the iteration ends.
func watch[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var none T
		answer, err := c.send(ctx, http.MethodGet, path, query, nil)
		if err != nil {
			yield(none, err)
			return
		}
		defer answer.Body.Close()
		lines := newLines(answer.Body)
		for {
			event, data, err := readEvent(lines)
			var v T
			switch {
			case err == nil && event == "end":
				e := new(Error)
				if err = json.Unmarshal(data, e); err == nil {
					err = e
				}
			case err == nil:
				err = json.Unmarshal(data, &v)
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			default:
				err = &unanswered{"admin: the stream broke off", err}
			}
			if err != nil {
				yield(none, err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// newLines returns a reader of lines of up to maxLine bytes.
func newLines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	return lines
}

// readEvent reads the next event with data.
func readEvent(lines *bufio.Scanner) (event string, data []byte, err error) {
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(name) {
		case "event":
			event = string(value)
		case "data":
			data = bytes.Clone(value)
		case "":
			if data != nil {
				return event, data, nil
			}
		}
	}
	if err := lines.Err(); err != nil {
		return "", nil, err
	}
	return "", nil, errEndless
}

// errEndless is the end of a stream without a reason.
var errEndless = errors.New("the connection has ended")
