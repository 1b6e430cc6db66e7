package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestAHoldLastsAsLongAsItsConnection(t *testing.T) {
	sampled.Computes(t)
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		h, err := s.c.Hold(ctx, "job", LockOptions{Value: []byte("me")})
		must(t, err)
		time.Sleep(time.Hour)
		must(t, h.Err())
		_, err = m.Node("b").TryLock(ctx, "job")
		wantError(t, err, lockmesh.ErrHeld)
		must(t, m.Node("b").Revoke(ctx, "job", lockmesh.WithReason("my turn")))
		if r := <-h.Revoked(); r.Node != "b" || r.Reason != "my turn" {
			t.Errorf("the client was asked for the key by %+v", r)
		}
		must(t, h.Release())
		wantError(t, h.Release(), lockmesh.ErrReleased)
		s.becomes("job", 0, 0)
		next, err := m.Node("b").TryLock(ctx, "job")
		must(t, err)
		if next.Token() <= h.Token() {
			t.Errorf("token %d isn't larger than %d", next.Token(), h.Token())
		}
	})
}

// TestAHoldTellsTheLengthOfItsLease: whatever the phase of the refreshes, on which the time left
// depends.
func TestAHoldTellsTheLengthOfItsLease(t *testing.T) {
	const own = 4 * time.Second
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for _, asked := range []time.Duration{0, lockmesh.MinTTL, lockmesh.DefaultMaxTTL} {
			h, err := s.c.Hold(t.Context(), "job", LockOptions{TTL: asked})
			must(t, err)
			want := asked
			if asked == 0 {
				want = own
			}
			if l := h.Last(); l.TTLMS != want.Milliseconds() || l.LeftMS >= l.TTLMS {
				t.Errorf("a lease of %v: %+v", want, l)
			}
			must(t, h.Release())
		}
		status, err := s.c.Status(t.Context())
		must(t, err)
		if status.TTLMS != own.Milliseconds() {
			t.Errorf("the node's own leases are said to last %d ms", status.TTLMS)
		}
	}, meshtest.WithConfig(func(c *lockmesh.Config) { c.TTL = own }))
}

func TestAHoldEndsWhenItsClientVanishes(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for _, method := range []string{"GET", "PUT"} {
			conn := s.raw(request(method+" /v1/hold/job") + "\n")
			lines := bufio.NewReader(conn)
			for {
				line, err := lines.ReadString('\n')
				must(t, err)
				if strings.Contains(line, `"event":"held"`) {
					break
				}
			}
			s.becomes("job", 1, 0)
			must(t, conn.Close())
			synctest.Wait()
			if n, _ := s.holders("job"); n != 0 {
				t.Errorf("%s: the key is still held", method)
			}
		}
	})
}

// TestAHoldEndsWhenItsClientStopsReading: the pipe has no buffer, so that writes wait at once.
func TestAHoldEndsWhenItsClientStopsReading(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		s.raw(request("PUT /v1/hold/job") + "\n")
		s.becomes("job", 1, 0)
		time.Sleep(writeTime + time.Second)
		s.becomes("job", 0, 0) // the client knows of no deadline
		if n := s.h.holds.taken(); n != 0 {
			t.Errorf("%d holds are counted", n)
		}
	})
}

func TestAHoldEndsWithItsLease(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		ctx := t.Context()
		for name, end := range map[string]struct {
			how  func(s *site, h *Hold)
			want []error
		}{
			"eviction": {func(_ *site, h *Hold) {
				must(t, m.Node("b").Evict(ctx, "job", h.Token(), lockmesh.WithReason("stuck")))
			}, []error{lockmesh.ErrLost, lockmesh.ErrEvicted}},
			"the server's stop": {func(s *site, _ *Hold) { s.stop() }, []error{lockmesh.ErrLost, ErrStopping}},
			"the handler's end": {func(s *site, _ *Hold) { s.h.Close() }, []error{lockmesh.ErrLost, ErrStopping}},
			"no majority": {func(*site, *Hold) {
				m.Partition([]string{"a"}, []string{"b", "c"})
				time.Sleep(time.Minute)
				m.Heal()
				m.Ready()
			}, []error{lockmesh.ErrLost}},
		} {
			s := newSite(t, m, "a")
			h, err := s.c.Hold(ctx, "job", LockOptions{})
			must(t, err)
			end.how(s, h)
			<-h.Done()
			wantError(t, h.Err(), end.want...)
			if t.Failed() {
				t.Fatalf("after %s", name)
			}
			s.becomes("job", 0, 0)
			wantError(t, h.Release(), lockmesh.ErrLost)
		}
	})
}

// TestTheServersStopGivesHoldersTime: the key is released only when the client has closed the
// connection, or at the deadline told to the client.
func TestTheServersStopGivesHoldersTime(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		for _, closes := range []bool{true, false} {
			s := newSite(t, m, "a")
			conn := s.raw(request("PUT /v1/hold/job") + "\n")
			read := bufio.NewScanner(conn)
			next := func(event string) (line HoldLine) {
				t.Helper()
				for read.Scan() {
					if strings.Contains(read.Text(), `"event":"`+event) {
						must(t, json.Unmarshal(read.Bytes(), &line))
						return line
					}
				}
				t.Fatalf("no line with %q: %v", event, read.Err())
				return line
			}
			next("held")
			go s.stop()
			end := next("end")
			from, left := time.Now(), time.Duration(end.LeftMS)*time.Millisecond
			if left < lockmesh.DefaultMaxTTL/2 {
				t.Errorf("the client has %v to end its work", left)
			}
			const work = 2 * time.Second
			for time.Since(from) < work {
				if n, _ := s.holders("job"); n != 1 {
					t.Errorf("the key was released %v after the client was told", time.Since(from))
				}
				time.Sleep(work / 10)
			}
			if closes {
				must(t, conn.Close())
			}
			<-s.stopped
			s.becomes("job", 0, 0)
			took, want := time.Since(from), left
			if closes {
				want = work
			}
			if took < want || took > want+time.Second {
				t.Errorf("closes %v: the key was free after %v, want %v", closes, took, want)
			}
		}
	})
}

// TestAHoldKeepsItsKeyAfterTheServersStop: a Hold that has ended by the stop of the server keeps
// the key until its Release.
func TestAHoldKeepsItsKeyAfterTheServersStop(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		h, err := s.c.Hold(t.Context(), "job", LockOptions{})
		must(t, err)
		go s.stop()
		<-h.Done()
		wantError(t, h.Err(), ErrStopping)
		time.Sleep(2 * time.Second)
		if n, _ := s.holders("job"); n != 1 {
			t.Error("the key was released while its client ended the work")
		}
		wantError(t, h.Release(), ErrStopping)
		<-s.stopped
		s.becomes("job", 0, 0)
	})
}

// TestAHoldOfALostMachineIsKeptToItsDeadline: where the system gives up a connection, the client
// may go on with its work behind a broken network.
func TestAHoldOfALostMachineIsKeptToItsDeadline(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		here, there := net.Pipe()
		defer here.Close()
		must(t, s.l.Offer(t.Context(), &lostConn{there}))
		_, err := io.WriteString(here, strings.ReplaceAll(request("PUT /v1/hold/job")+"\n", "\n", "\r\n"))
		must(t, err)
		var last HoldLine
		for read := bufio.NewScanner(here); last.Event != "alive" && read.Scan(); {
			if strings.Contains(read.Text(), `"event"`) {
				must(t, json.Unmarshal(read.Bytes(), &last))
			}
		}
		left := time.Duration(last.LeftMS) * time.Millisecond
		must(t, here.Close())
		for from := time.Now(); time.Since(from) < left; time.Sleep(time.Second / 2) {
			if n, _ := s.holders("job"); n != 1 {
				t.Fatalf("the key was released %v before the deadline told to the client", left-time.Since(from))
			}
		}
		s.becomes("job", 0, 0)
	})
}

// TestAHoldWithTooMuchBehindItIsKeptToItsDeadline: the server cuts the client, which may go on
// with its work.
func TestAHoldWithTooMuchBehindItIsKeptToItsDeadline(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		conn := s.raw(request("PUT /v1/hold/job") + "\n")
		read := bufio.NewScanner(conn)
		for read.Scan() && !strings.Contains(read.Text(), `"held"`) {
		}
		var held HoldLine
		must(t, json.Unmarshal(read.Bytes(), &held))
		left := time.Duration(held.LeftMS) * time.Millisecond
		go func() { _, _ = io.WriteString(conn, strings.Repeat("x", aheadMost+5000)) }()
		for from := time.Now(); time.Since(from) < left; time.Sleep(time.Second / 2) {
			if n, _ := s.holders("job"); n != 1 {
				t.Fatalf("the key was released %v before the deadline told to the client", left-time.Since(from))
			}
		}
		must(t, conn.Close())
		s.becomes("job", 0, 0)
	})
}

// TestAHoldThatIsHalfClosedEndsBeforeItsRelease: a client that closes its own side only still
// reads.
func TestAHoldThatIsHalfClosedEndsBeforeItsRelease(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for _, reads := range []bool{true, false} {
			here, there := net.Pipe()
			must(t, s.l.Offer(t.Context(), &halfClosing{there}))
			_, err := io.WriteString(here, strings.ReplaceAll(request("PUT /v1/hold/job")+"\n", "\n", "\r\n"))
			must(t, err)
			read := bufio.NewScanner(here)
			for read.Scan() && !strings.Contains(read.Text(), `"held"`) {
			}
			s.becomes("job", 1, 0)
			_, err = here.Write([]byte{endOfText})
			must(t, err)
			synctest.Wait() // the last line waits for its reader
			if n, _ := s.holders("job"); n != 1 {
				t.Error("the key was released before the client knew")
			}
			if reads {
				for read.Scan() && !strings.Contains(read.Text(), `"end"`) {
				}
				if text := read.Text(); !strings.Contains(text, `"released"`) || !strings.Contains(text, "closes its side") {
					t.Errorf("the last line is %q", text)
				}
			}
			s.becomes("job", 0, 0)
			must(t, here.Close())
		}
	})
}

// TestAHoldEndsOnce: a client that is told of the server's stop, and then closes its own side,
// gets no second end.
func TestAHoldEndsOnce(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		here, there := net.Pipe()
		must(t, s.l.Offer(t.Context(), &halfClosing{there}))
		_, err := io.WriteString(here, strings.ReplaceAll(request("PUT /v1/hold/job")+"\n", "\n", "\r\n"))
		must(t, err)
		ends := make(chan int, 1)
		go func() {
			n := 0
			for read := bufio.NewScanner(here); read.Scan(); {
				if strings.Contains(read.Text(), `"end"`) {
					n++
					_, _ = here.Write([]byte{endOfText})
				}
			}
			ends <- n
		}()
		s.becomes("job", 1, 0)
		s.stop()
		<-s.stopped
		if n := <-ends; n != 1 {
			t.Errorf("%d ends", n)
		}
		must(t, here.Close())
		s.becomes("job", 0, 0)
	})
}

// halfClosing is a connection that its client closes for writing by a byte.
type halfClosing struct{ net.Conn }

const endOfText = 4

func (c *halfClosing) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && p[n-1] == endOfText {
		return n - 1, io.EOF
	}
	return n, err
}

// lostConn ends as a connection that the system has given up.
type lostConn struct{ net.Conn }

func (c *lostConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		err = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ETIMEDOUT}
	}
	return n, err
}

// TestAHoldsClientNoticesSilence: a server that has fallen silent may have lost the lease.
func TestAHoldsClientNoticesSilence(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		silent := make(chan struct{})
		c := s.client(testToken)
		dial := transportOf(c).DialContext
		transportOf(c).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			end := make(chan struct{})
			return &deaf{Conn: conn, from: silent, end: end, close: sync.OnceFunc(func() { close(end) })}, err
		}
		h, err := c.Hold(t.Context(), "job", LockOptions{})
		must(t, err)
		time.Sleep(time.Minute)
		must(t, h.Err())
		close(silent)
		from := time.Now()
		<-h.Done()
		wantError(t, h.Err(), lockmesh.ErrLost)
		if d := time.Since(from); d > lockmesh.DefaultMaxTTL {
			t.Errorf("noticed after %v", d)
		}
		wantError(t, h.Release(), lockmesh.ErrLost)
	})
}

// TestALineAfterTheDeadlineRevivesNoHold: a line that has waited until after the deadline of the
// line before, since this process or the node stood still, ends the hold.
func TestALineAfterTheDeadlineRevivesNoHold(t *testing.T) {
	h := &Hold{done: make(chan struct{}), gone: make(chan struct{}), revoked: make(chan Revocation, 1), cancel: func() {}, client: &Client{}}
	h.timer = time.AfterFunc(time.Hour, h.check) // fires late: the process stands still
	h.note(&HoldLine{Event: "held", LeftMS: 5000})
	h.timer.Stop()
	h.deadline = time.Now()
	line := `{"event":"alive","left_ms":5000}` + "\n"
	h.read(io.NopCloser(strings.NewReader("")), bufio.NewScanner(strings.NewReader(line)))
	wantError(t, h.Err(), lockmesh.ErrLost)
	if !strings.Contains(h.Err().Error(), "no confirmation") {
		t.Error(h.Err())
	}
}

// deaf is a connection that receives nothing once from is closed.
type deaf struct {
	net.Conn
	from, end chan struct{}
	close     func()
}

func (d *deaf) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	select {
	case <-d.from:
		<-d.end
		return 0, io.EOF
	default:
		return n, err
	}
}

func (d *deaf) Close() error {
	defer d.close()
	return d.Conn.Close()
}

func TestAHoldsContextBoundsTheWaitOnly(t *testing.T) {
	sampled.Computes(t)
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h, err := s.c.Hold(ctx, "job", LockOptions{})
		must(t, err)
		time.Sleep(time.Hour)
		must(t, h.Err())
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = s.c.Hold(ctx, "job", LockOptions{Wait: time.Hour})
		wantError(t, err, context.DeadlineExceeded)
		s.becomes("job", 1, 0)
		must(t, h.Release())
	})
}

// TestAReleaseIsConfirmed: the next request finds the key free, however soon after the release.
func TestAReleaseIsConfirmed(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		for range 100 {
			h, err := s.c.Hold(ctx, "job", LockOptions{})
			must(t, err)
			if left := time.Until(h.Deadline()); left <= 0 || left > lockmesh.DefaultMaxTTL {
				t.Fatalf("the deadline is %v from now", left)
			}
			must(t, h.Release())
			wantError(t, h.Err(), lockmesh.ErrReleased)
			wantError(t, h.Release(), lockmesh.ErrReleased)
			lease, err := m.Node("b").TryLock(ctx, "job")
			must(t, err)
			must(t, lease.Unlock(ctx))
		}
		// The id releases a hold from another connection, too.
		h, err := s.c.Hold(ctx, "job", LockOptions{})
		must(t, err)
		must(t, s.client(testToken).Unlock(ctx, h.Last().ID))
		<-h.Done()
		wantError(t, h.Err(), lockmesh.ErrLost, lockmesh.ErrReleased)
		if n := s.h.holds.taken(); n != 0 {
			t.Errorf("%d holds are counted", n)
		}
	})
}

func TestAReleaseWithoutAServerIsNotConfirmed(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		h, err := s.c.Hold(t.Context(), "job", LockOptions{})
		must(t, err)
		transportOf(s.c).DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
		transportOf(s.c).CloseIdleConnections()
		if err := h.Release(); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("the error is %v", err)
		}
		s.becomes("job", 0, 0) // the connection has ended
	})
}

// TestAReleaseWaitsUntilTheEndOfTheLease: for an answer of a node that hangs. Then the key is free
// without a release.
func TestAReleaseWaitsUntilTheEndOfTheLease(t *testing.T) {
	for _, c := range []struct{ ttl, least, most time.Duration }{
		{lockmesh.DefaultMaxTTL, releaseTime, releaseTime},
		{3 * time.Second, releaseLeast + 1, 3 * time.Second},
		{lockmesh.MinTTL, releaseLeast, releaseLeast},
	} {
		run(t, func(t *testing.T, m *meshtest.Mesh) {
			s := newSite(t, m, "a")
			h, err := s.c.Hold(t.Context(), "job", LockOptions{TTL: c.ttl})
			must(t, err)
			transportOf(s.c).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			transportOf(s.c).CloseIdleConnections()
			began := time.Now()
			wantError(t, h.Release(), context.DeadlineExceeded)
			if took := time.Since(began); took < c.least || took > c.most {
				t.Errorf("a lease of %v: the release waits for %v", c.ttl, took)
			}
		})
	}
}

// TestAHoldIsReleasedOnce: of several concurrent calls, a single call reports that the key was
// released.
func TestAHoldIsReleasedOnce(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		for range 100 {
			h, err := s.c.Hold(t.Context(), "job", LockOptions{})
			must(t, err)
			const n = 4
			errs := make(chan error, n)
			for range n {
				go func() { errs <- h.Release() }()
			}
			released := 0
			for range n {
				switch err := <-errs; {
				case err == nil:
					released++
				case !errors.Is(err, lockmesh.ErrReleased):
					t.Fatal(err)
				}
			}
			if released != 1 {
				t.Fatalf("%d calls have released the key", released)
			}
		}
	})
}

// TestAHoldsIDShowsTheLease: a request for the lease by the hold's id changes nothing about the
// hold.
func TestAHoldsIDShowsTheLease(t *testing.T) {
	run(t, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		ctx := t.Context()
		conn := s.raw(request("PUT /v1/hold/job") + "\n")
		lines := bufio.NewScanner(conn)
		var last HoldLine
		next := func(event string) {
			t.Helper()
			for lines.Scan() {
				if json.Unmarshal(lines.Bytes(), &last) == nil && last.Event == event {
					return
				}
			}
			t.Fatalf("no line says %q: %v", event, lines.Err())
		}
		next("held")
		_, err := s.c.Extend(ctx, last.ID, 0)
		wantError(t, err, ErrRequest)
		if err == nil || !strings.Contains(err.Error(), "a hold lasts as long as its connection") {
			t.Errorf("the error is %v", err)
		}
		// The test doesn't read the next line, so the revoke request waits behind this line.
		time.Sleep(holdBeatTime + time.Second)
		must(t, m.Node("b").Revoke(ctx, "job", lockmesh.WithReason("my turn")))
		l, err := s.c.Lease(ctx, last.ID)
		must(t, err)
		if l.ID != last.ID || l.Token != last.Token || l.TTLMS != 0 || len(l.Revocations) != 0 {
			t.Errorf("the lease is %+v", l)
		}
		next("revoked")
		if last.Revocation == nil || last.Revocation.Reason != "my turn" {
			t.Errorf("the line is %+v", last)
		}
		must(t, s.c.Unlock(ctx, last.ID))
		next("end")
		if f := last.Failure; f == nil || !strings.Contains(f.Message, "by its id, or by the end of the node") {
			t.Errorf("the line is %+v", last)
		}
	})
}
