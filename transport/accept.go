package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Without TLS, a connection begins with 8 magic bytes from the dialer, naming the protocol, and the
// acceptor echoes the bytes to agree. A refusal begins with magicLocks, whatever the dialer sent,
// and continues with a refusal frame. To a dialer using TLS, the first five bytes of such a refusal
// appear in crypto/tls's RecordHeaderError.
const (
	magicLocks  = "LOCKMESH"
	magicGossip = "LOCKGOSS"
	magicBytes  = 8

	tlsHandshakeRecord = 0x16 // the first byte of every TLS client
	tlsRecordHeader    = 5
)

const (
	// acceptPause is the pause after an error of the listener, which may have run out of file
	// descriptors; each further error doubles the pause.
	acceptPause    = 5 * time.Millisecond
	acceptPauseMax = time.Second
	// acceptWarnEvery is how often the operator is warned while the errors go on.
	acceptWarnEvery = time.Minute
)

// accept accepts connections until the port closes. Admission limits how many connections may be in
// the handshake at once.
func (p *Port) accept() {
	defer p.running.Done()
	pause := acceptPause
	var warned time.Time
	for {
		c, err := p.tcp.AcceptTCP()
		full := false
		if err == nil {
			full, err = p.admit(c)
			pause = acceptPause
		}
		switch {
		case err == nil && !full:
		case err == nil:
			if !p.sleep(fullPause) {
				return
			}
		case p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, ErrClosed):
			return
		default:
			if time.Since(warned) >= acceptWarnEvery {
				warned = time.Now()
				p.log.warn(topicSocket, "can't accept connections", "addr", p.addr, "error", err)
			}
			if !p.sleep(pause) {
				return
			}
			pause = min(2*pause, acceptPauseMax)
		}
	}
}

// sleep waits for d, and reports whether the port is still open.
func (p *Port) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// admit starts the handshake on an incoming connection. admission.admit explains full.
func (p *Port) admit(c *net.TCPConn) (full bool, err error) {
	if err := p.begin(); err != nil {
		_ = c.Close()
		return false, err
	}
	if err := p.keep(c); err != nil {
		p.running.Done()
		return false, err
	}
	ctx, stop := context.WithTimeout(p.ctx, p.build.handshakeTimeout)
	v, full := p.admission.admit(addrOf(c), func() {
		_ = c.SetLinger(0) // send no farewell, and leave no state behind in the system
		_ = c.Close()
		stop()
	})
	go func() {
		defer p.running.Done()
		defer stop()
		defer p.admission.remove(v)
		if !p.dispatch(ctx, c, v) {
			hangUp(c)
			p.forget(c)
		}
	}()
	return full, nil
}

// addrOf returns the remote address of a connection.
func addrOf(c *net.TCPConn) netip.Addr {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr()
}

// dispatch identifies the protocol of a connection and hands the connection to the code in charge.
// It reports whether another owner now takes care of closing the connection.
func (p *Port) dispatch(ctx context.Context, c *net.TCPConn, v *visitor) bool {
	began := time.Now()
	early := newEarlyConn(c)
	word, err := p.firstMessage(early, v, began.Add(p.build.handshakeTimeout))
	if err != nil {
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.admission.countSilent(v)
			_ = c.Close() // close at once, without a farewell
		case len(word) > 0:
			p.garbage(c, err)
		}
		return false // otherwise the peer only checked whether the port is open
	}
	_ = c.SetDeadline(began.Add(p.build.handshakeTimeout))
	if !p.admission.beginHandshake(ctx, v) {
		p.admission.countUnfinished(v)
		return false
	}
	secured, wantsTLS := p.identity != nil, word[0] == tlsHandshakeRecord
	switch {
	case wantsTLS && secured:
		return p.meetTLS(ctx, c, v, early)
	case wantsTLS:
		p.rejectSecret(c, "a peer speaks TLS: it has a secret, and this node has none")
		p.refusePlain(c, "the peer speaks plain text: it has no secret")
		return false
	}
	if string(word) != magicLocks && string(word) != magicGossip {
		p.garbage(c, nil)
		return false
	}
	if secured {
		p.rejectSecret(c, "a peer speaks plain text: it has no secret, and this node has one")
		p.refusePlain(c, "the peer speaks TLS only: it has a secret, and this node has none")
		return false
	}
	early.seen = nil
	s := &session{socket: c, early: early, stream: early}
	if _, err := c.Write(word); err != nil {
		return false
	}
	if string(word) == magicGossip {
		return p.gossip.handOver(s, v)
	}
	return p.answer(s, v)
}

// firstMessage waits for a connection's first message: for firstMessageTimeout, and until the end
// of the handshake's time while there is room.
func (p *Port) firstMessage(early *earlyConn, v *visitor, end time.Time) (word []byte, err error) {
	wait, last := p.build.firstWordTime, false
	for {
		until := time.Now().Add(wait)
		if !last && end.Before(until) {
			until = end
		}
		_ = early.SetDeadline(until)
		word, err = early.peekFirstMessage(p.identity != nil)
		if last || !errors.Is(err, os.ErrDeadlineExceeded) {
			return word, err
		}
		wait = max(wait, finalRead)
		if !time.Now().Before(end) || p.admission.scarce(v) {
			wait, last = finalRead, true
		}
	}
}

// meetTLS performs the TLS handshake, and has both sides prove that they know a secret.
func (p *Port) meetTLS(ctx context.Context, c *net.TCPConn, v *visitor, early *earlyConn) bool {
	s := &session{socket: c, early: early}
	cfg := p.identity.serverConfig()
	otherVersion := false
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		otherVersion = isOtherProto(hello.SupportedProtos)
		return nil, early.compute(ctx, p.admission.proofs)
	}
	defer early.computed()
	t := tls.Server(early, cfg)
	s.stream = t
	err := t.HandshakeContext(ctx)
	proto := t.ConnectionState().NegotiatedProtocol
	if err == nil && proto != protoLocks && proto != protoGossip {
		err = errors.New("the TLS handshake negotiated none of lockmesh's protocols")
	}
	if err == nil {
		s.key, err = p.identity.demand(t)
	}
	if err != nil {
		switch {
		case ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded):
			p.admission.countUnfinished(v)
		case errors.Is(err, errNoSecret):
			p.rejectSecret(c, "a peer has another secret")
		case otherVersion:
			p.count.refused[vote.ReasonTerms].Add(1)
			p.log.warn(topicTerms, "refused a peer", "addr", c.RemoteAddr(), "reason", errOtherVersion)
		default:
			p.garbage(c, err)
		}
		return false
	}
	p.admission.noteMember(addrOf(c)) // the peer has proved that it knows a secret
	if proto == protoGossip {
		return p.gossip.handOver(s, v)
	}
	return p.answer(s, v)
}

// answer reads the dialer's hello and answers with a welcome or a refusal.
func (p *Port) answer(s *session, v *visitor) bool {
	s.frames = newFrameReader(s.stream)
	version, frame, err := s.frames.next(maxHandshake)
	if err != nil || version != handshakeVersion {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.admission.countUnfinished(v)
		}
		p.garbage(s.socket, err)
		return false
	}
	h, err := decodeHello(frame)
	if err != nil {
		p.garbage(s.socket, err)
		return false
	}
	s.own, s.peer = p.offer(), h.offer
	p.reportPeer(s, h.account)
	var no *refusal
	if s.version, no = p.judge(s, h.want); no == nil && h.role == roleStream {
		no = p.barred()
	}
	if no != nil {
		p.refuse(s, no)
		return false
	}
	if err := s.sendFrame(func(b []byte) []byte {
		return appendWelcome(b, &welcome{offer: s.own, account: p.ownAccount(), version: s.version})
	}); err != nil {
		return false
	}
	if h.role == roleProbe {
		p.count.probed.Add(1)
		return false
	}
	s.settle()
	l, err := p.newLink(s, false)
	if err != nil {
		return false
	}
	p.count.accepted.Add(1)
	p.handler.Linked(l.id, l.peer, false, p.isFixed(s))
	go l.run()
	return true
}

// judge decides whether to accept a dialer: it returns the protocol version to use, or a refusal.
func (p *Port) judge(s *session, want vote.NodeID) (version uint8, no *refusal) {
	refuse := func(r vote.Reason, text string) (uint8, *refusal) {
		return 0, &refusal{self: p.own.self, reason: r, text: text}
	}
	if s.peer.self == p.own.self {
		return refuse(vote.ReasonNone, "the dialer is this very process")
	}
	if want != "" && want != p.own.self.Node {
		return refuse(vote.ReasonNone, (&WrongNodeError{Want: want, Got: p.own.self.Node}).Error())
	}
	version, text := compare(&s.own, &s.peer)
	if text != "" {
		_, no := refuse(vote.ReasonTerms, text)
		if p.own.terms.Mesh == s.peer.terms.Mesh {
			no.terms, no.account = s.own.terms.common(), p.ownAccount()
		}
		return 0, no
	}
	return version, nil
}

// refuse sends the dialer a refusal, and also logs the refusal if an operator should act on the
// reason.
func (p *Port) refuse(s *session, no *refusal) {
	if no.reason != vote.ReasonNone {
		p.count.refused[no.reason].Add(1)
		p.log.warn(topicTerms, "refused a peer", "peer", s.peer.self.Node, "addr", s.socket.RemoteAddr(), "reason", no.text)
	}
	_ = s.sendFrame(func(b []byte) []byte { return appendRefusal(b, no) })
}

// refusePlain refuses a dialer that uses TLS where this node uses plain text, or the reverse. The
// refusal doesn't name this node, since the dialer has proved nothing.
func (p *Port) refusePlain(c net.Conn, text string) {
	b := []byte(magicLocks)
	b, err := appendFrame(b, handshakeVersion, func(b []byte) ([]byte, error) {
		return appendRefusal(b, &refusal{reason: vote.ReasonSecret, text: text}), nil
	})
	if err == nil {
		_, _ = c.Write(b)
	}
}

// rejectSecret counts and logs a peer without our secret.
func (p *Port) rejectSecret(c net.Conn, text string) {
	p.count.refused[vote.ReasonSecret].Add(1)
	p.log.warn(topicSecret, text, "addr", c.RemoteAddr())
}

// broke reports whether an error comes from the connection itself, such as a reset by the peer's
// system, rather than from the bytes received.
func broke(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "read" || op.Op == "write")
}

// garbage counts and logs a connection with a peer outside our protocols. A connection cut by the
// network or by our own Close doesn't count as garbage.
func (p *Port) garbage(c net.Conn, err error) {
	if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return
	}
	if err == nil {
		err = errNotLockmesh
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || broke(err) {
		p.logger.Debug("a connection ended before its handshake", "addr", c.RemoteAddr(), "error", err)
		return
	}
	p.count.garbage.Add(1)
	p.log.warn(topicGarbage, "dropped a connection that isn't lockmesh's", "addr", c.RemoteAddr(), "error", err)
}
