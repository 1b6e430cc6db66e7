package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// errSlow: the handshake as a whole took too long.
var errSlow = errors.New("the peer took too long to answer")

// session is a connection that is about to become a link or a gossip stream. One goroutine owns a
// session.
type session struct {
	socket  *net.TCPConn
	early   *earlyConn
	stream  net.Conn // early, or TLS over early
	key     *key     // of the secret that both sides know; nil without TLS
	frames  *frameReader
	own     offer // of this node; as peer, set once the peer has sent an offer
	peer    offer
	version uint8 // the protocol version to use
}

// sendFrame sends one frame of the handshake.
func (s *session) sendFrame(fill func([]byte) []byte) error {
	b, err := appendFrame(nil, handshakeVersion, func(b []byte) ([]byte, error) { return fill(b), nil })
	if err != nil {
		return err
	}
	_, err = s.stream.Write(b)
	return err
}

// settle lifts the handshake's limits on time and bytes.
func (s *session) settle() {
	s.early.trust()
	_ = s.socket.SetDeadline(time.Time{})
}

// Dial connects to the voter want at addr, a host:port; the host may be a name with several
// addresses. Before Dial returns without an error, Linked is called for the connection. Dial ends
// with ctx, with the port, or after handshakeTimeout.
//
// The error is or wraps a [RefusedError], a [WrongNodeError], [ErrSelf], [errNotLockmesh],
// [ErrNoAnswer], [ErrClosed], ctx's error, or a network error.
func (p *Port) Dial(ctx context.Context, addr string, want vote.NodeID) (vote.Conn, error) {
	if want == "" {
		return 0, errors.New("dialing: no node is named; call Probe for an address of an " +
			"unknown node")
	}
	if err := p.begin(); err != nil {
		return 0, fmt.Errorf("dialing %s at %s: %w", want, addr, err)
	}
	defer p.running.Done()
	s, err := p.approach(ctx, addr, want, roleStream)
	if err != nil {
		return 0, fmt.Errorf("dialing %s at %s: %w", want, addr, err)
	}
	l, err := p.newLink(s, true)
	if err != nil {
		p.forget(s.socket)
		return 0, fmt.Errorf("dialing %s at %s: %w", want, addr, err)
	}
	p.count.dialed.Add(1)
	p.handler.Linked(l.id, l.peer, true, p.isFixed(s))
	go l.run()
	return l.id, nil
}

// Probe probes addr: it asks which node is there and whether the node would link with us, and hangs
// up. Errors are as for Dial.
func (p *Port) Probe(ctx context.Context, addr string) (vote.SessionID, error) {
	if err := p.begin(); err != nil {
		return vote.SessionID{}, fmt.Errorf("probing %s: %w", addr, err)
	}
	defer p.running.Done()
	s, err := p.approach(ctx, addr, "", roleProbe)
	if err != nil {
		return vote.SessionID{}, fmt.Errorf("probing %s: %w", addr, err)
	}
	p.forget(s.socket)
	return s.peer.self, nil
}

// approach connects and performs the whole handshake.
func (p *Port) approach(ctx context.Context, addr string, want vote.NodeID, as role) (*session, error) {
	s, err := p.within(ctx, p.build.handshakeTimeout, func(ctx context.Context) (*session, error) {
		return p.connect(ctx, addr, protoLocks, func(s *session) error { return p.introduce(s, want, as) })
	})
	var no *RefusedError
	if errors.As(err, &no) {
		p.count.refused[no.Reason].Add(1)
		p.log.warn(topicDialed, "a peer and this node can't be linked", "peer", no.Peer, "addr", addr, "reason", no.Text)
	}
	return s, err
}

// within runs f under a context that ends with ctx, with the port, and after d. If f failed for one
// of these reasons, the error names the reason.
func (p *Port) within(ctx context.Context, d time.Duration, f func(context.Context) (*session, error)) (*session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(ErrClosed) })()
	ctx, done := context.WithTimeoutCause(ctx, d, errSlow)
	defer done()
	s, err := f(ctx)
	if until, ok := ctx.Deadline(); ok && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(until) {
		// A dialer's own timer for the deadline of ctx has fired a moment before that of ctx.
		<-ctx.Done()
	}
	switch {
	case err == nil:
		return s, nil
	case p.ctx.Err() != nil:
		return nil, ErrClosed
	case ctx.Err() != nil && !errors.Is(err, ErrNoAnswer):
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// connect opens a connection for one of our protocols, by TLS or by the plain-text announcement,
// and calls then. After an error the socket is closed.
func (p *Port) connect(ctx context.Context, addr, proto string, then func(*session) error) (*session, error) {
	c, err := (&net.Dialer{Control: clampBefore}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &session{socket: c.(*net.TCPConn), early: newEarlyConn(c)}
	if err := p.keep(s.socket); err != nil {
		return nil, err
	}
	keepOn := context.AfterFunc(ctx, func() { _ = s.socket.Close() })
	if p.identity != nil {
		err = p.proveTLS(ctx, s, proto)
	} else {
		err = announce(s, proto)
	}
	if err == nil {
		err = then(s)
	}
	if !keepOn() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		p.forget(s.socket)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("%w (%w)", ErrNoAnswer, context.Cause(ctx))
		}
		return nil, refusedBy(s, err)
	}
	p.admission.noteMember(addrOf(s.socket)) // the peer has completed the handshake, and may dial us
	s.settle()
	return s, nil
}

// proveTLS performs the client's side of the TLS handshake and of the proofs.
func (p *Port) proveTLS(ctx context.Context, s *session, proto string) error {
	t := tls.Client(s.early, p.identity.clientConfig(proto))
	s.stream = t
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	if t.ConnectionState().NegotiatedProtocol != proto {
		return errNotLockmesh
	}
	var err error
	s.key, err = p.identity.prove(t)
	return err
}

// announce names the protocol in plain text, and waits until the peer agrees.
func announce(s *session, proto string) error {
	magic := magicLocks
	if proto == protoGossip {
		magic = magicGossip
	}
	s.stream = s.early
	if _, err := io.WriteString(s.stream, magic); err != nil {
		return err
	}
	var answer [magicBytes]byte
	if _, err := io.ReadFull(s.stream, answer[:]); err != nil {
		return err
	}
	switch string(answer[:]) {
	case magic:
		return nil
	case magicLocks: // the answer to a gossip dialer: a refusal
		_, no, err := hear(newFrameReader(s.stream))
		if err == nil && no != nil {
			return &RefusedError{Reason: no.reason, Text: no.text}
		}
	}
	return errNotLockmesh
}

// introduce sends our hello and judges the answer.
func (p *Port) introduce(s *session, want vote.NodeID, as role) error {
	s.own = p.offer()
	h := hello{offer: s.own, account: p.ownAccount(), role: as, want: want}
	if err := s.sendFrame(func(b []byte) []byte { return appendHello(b, &h) }); err != nil {
		return err
	}
	s.frames = newFrameReader(s.stream)
	yes, no, err := hear(s.frames)
	switch {
	case err != nil:
		return err
	case no != nil:
		p.reportRefuser(no)
		return p.turnedAway(no, want)
	}
	s.peer, s.version = yes.offer, yes.version
	p.reportPeer(s, yes.account)
	return p.accepts(s, want)
}

// hear reads the acceptor's answer.
func hear(f *frameReader) (*welcome, *refusal, error) {
	version, frame, err := f.next(maxHandshake)
	if err != nil {
		return nil, nil, err
	}
	if version != handshakeVersion {
		return nil, nil, errNotLockmesh
	}
	return decodeAnswer(frame)
}

// turnedAway converts a refusal to an error.
func (p *Port) turnedAway(no *refusal, want vote.NodeID) error {
	switch {
	case no.self == p.own.self:
		return ErrSelf
	case no.reason == vote.ReasonNone && want != "" && no.self.Node != want:
		return &WrongNodeError{Want: want, Got: no.self.Node}
	}
	// A node of this mesh tells its terms: see judge.
	foreign := no.reason == vote.ReasonTerms && !no.hasTerms()
	return &RefusedError{Peer: no.self.Node, Reason: no.reason, Text: no.text, Foreign: foreign}
}

// accepts checks on the dialer's side the same conditions as the acceptor has checked.
func (p *Port) accepts(s *session, want vote.NodeID) error {
	refuse := func(text string) error {
		return &RefusedError{Peer: s.peer.self.Node, Reason: vote.ReasonTerms, Text: text, Foreign: s.peer.terms.Mesh != s.own.terms.Mesh}
	}
	if s.peer.self == p.own.self {
		return ErrSelf
	}
	if want != "" && s.peer.self.Node != want {
		return &WrongNodeError{Want: want, Got: s.peer.self.Node}
	}
	version, text := compare(&s.own, &s.peer)
	if text != "" {
		return refuse(text)
	}
	if version != s.version {
		return refuse(fmt.Sprintf("the peer chose wire version %d where %d is the newest that both know", s.version, version))
	}
	return nil
}

// refusedBy determines whether a handshake error means that one of the two sides doesn't know the
// secret.
func refusedBy(s *session, err error) error {
	var record tls.RecordHeaderError
	switch {
	case isOtherVersion(err):
		return &RefusedError{Reason: vote.ReasonTerms, Text: errOtherVersion.Error()}
	case errors.As(err, &record):
		if strings.HasPrefix(magicLocks, string(record.RecordHeader[:])) {
			return &RefusedError{Reason: vote.ReasonSecret, Text: "the peer speaks plain text: it has no secret"}
		}
		return fmt.Errorf("%w: %w", errNotLockmesh, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		if s.early.untouched() {
			return fmt.Errorf("%w (the peer has hung up: %w)", ErrNoAnswer, err)
		}
		return fmt.Errorf("the peer hung up during the handshake: %w", err)
	case errors.Is(err, errMalformed), errors.Is(err, errTooMuch):
		return fmt.Errorf("%w: %w", errNotLockmesh, err)
	}
	return err
}
