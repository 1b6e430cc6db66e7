package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockmesh/lockmesh"
)

// burst is how many waiting events are written at once: enough that a busy watch costs few system
// calls, and some hundred kilobytes at most.
const burst = 64

// stream begins an answer in pieces.
//
// Without a write timeout, a client that stops reading would keep the handler busy without end, and
// keep the key that the handler holds for the client.
func (x *exchange) stream(contentType string) error {
	err := x.rc.SetWriteDeadline(time.Now().Add(writeTime))
	if err != nil {
		return fmt.Errorf("admin: this server can't cut a client that stops reading: %w; use Serve, or have the wrappers of "+
			"the http.ResponseWriter implement Unwrap, see http.ResponseController", err)
	}
	x.began = true
	x.header(contentType)
	x.w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	x.w.WriteHeader(http.StatusOK)
	return x.rc.Flush()
}

// send writes a piece of the stream, within writeTime.
func (x *exchange) send(piece []byte) error { return x.sendWithin(piece, writeTime) }

func (x *exchange) sendWithin(piece []byte, limit time.Duration) error {
	if err := x.rc.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := x.w.Write(piece); err != nil {
		return err
	}
	return x.rc.Flush()
}

// events writes server-sent events from a channel until the channel is closed, and then the error
// of why, as an event named "end".
func events[From, To any](x *exchange, from <-chan From, why func() error, convert func(From) To, first ...To) error {
	if err := x.stream("text/event-stream"); err != nil {
		return err
	}
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	id := 0
	var piece bytes.Buffer
	add := func(v To) error {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		id++
		fmt.Fprintf(&piece, "id: %d\ndata: %s\n\n", id, data)
		return nil
	}
	piece.WriteString("retry: 2000\n\n")
	for _, v := range first {
		if err := add(v); err != nil {
			return err
		}
	}
	for open := true; open; {
		if err := x.send(piece.Bytes()); err != nil {
			return err
		}
		piece.Reset()
		select {
		case v, ok := <-from:
			for n := 1; ok; n++ {
				if err := add(convert(v)); err != nil {
					return err
				}
				if n == burst || len(from) == 0 {
					break
				}
				v, ok = <-from
			}
			open = ok
		case <-beat.C:
			piece.WriteString(": the stream is alive\n\n")
		case <-x.ctx.Done():
			open = false
		}
	}
	err := why()
	if isStopping(x.ctx) {
		err = ErrStopping
	}
	data, failed := json.Marshal(errorOf(err))
	if failed != nil {
		return failed
	}
	fmt.Fprintf(&piece, "event: end\ndata: %s\n\n", data)
	return x.send(piece.Bytes())
}

// errEnded is the end of a stream without another reason.
var errEnded = errors.New("the stream has ended")

func (x *exchange) watch() error {
	if x.query.Has("key") && x.query.Has("prefix") {
		return failure(ErrRequest, "the query has both key and prefix; leave one of the two out")
	}
	give, err := x.h.streams.take(x.known)
	if err != nil {
		return err
	}
	defer give()
	var w *lockmesh.Watch
	if x.query.Has("key") {
		w, err = x.h.mesh.Watch(x.ctx, x.query.Get("key"))
	} else {
		w, err = x.h.mesh.WatchPrefix(x.ctx, x.query.Get("prefix"))
	}
	if err != nil {
		return err
	}
	var first []Event
	if x.r.Header.Get("Last-Event-ID") != "" {
		// A browser connects again by itself. The events in between are missing.
		first = []Event{{Kind: lockmesh.EventGap.String(), At: time.Now().UTC()}}
	}
	return events(x, w.Events(), w.Err, func(e lockmesh.Event) Event { return eventOf(&e) }, first...)
}

func (x *exchange) watchElectorate() error {
	give, err := x.h.streams.take(x.known)
	if err != nil {
		return err
	}
	defer give()
	changes, err := x.h.mesh.WatchElectorate(x.ctx)
	if err != nil {
		return err
	}
	why := func() error {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if x.h.mesh.Status().Closed {
			return failure(lockmesh.ErrClosed, "the node has ended")
		}
		return errEnded
	}
	return events(x, changes, why, func(s lockmesh.ElectorateStatus) Electorate { return electorateOf(&s) })
}
