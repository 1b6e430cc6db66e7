package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Without TLS the first bytes of a connection say what it is for, and the acceptor's first bytes that it agrees. An answer of ours
// that can't be what the dialer hopes for begins with magicLocks too and goes on with a refusal. A dialer of TLS sees the
// first five bytes of it in the library's error.
const (
	magicLocks  = "LOCKMESH"
	magicGossip = "LOCKGOSS"
	magicBytes  = 8

	tlsHandshakeRecord = 0x16 // the first byte of everybody who wants TLS
)

const (
	acceptPause    = 5 * time.Millisecond // after an error of the listener, doubled with each further one: it may have run out of files
	acceptPauseMax = time.Second
)

// accept takes connections in until the port closes.
func (p *Port) accept() {
	defer p.running.Done()
	pause := acceptPause
	for {
		select {
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		c, err := p.tcp.AcceptTCP()
		if err == nil {
			err = p.admit(c)
			pause = acceptPause
		}
		if err == nil {
			continue // admit's goroutine gives the slot back
		}
		<-p.slots
		if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, ErrClosed) {
			return
		}
		p.log.warn(topicSocket, "can't accept connections", "addr", p.addr, "error", err)
		if !p.sleep(pause) {
			return
		}
		pause = min(2*pause, acceptPauseMax)
	}
}

// sleep waits, and reports whether the port is still open.
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

// admit starts the handshake with a connection that came in.
func (p *Port) admit(c *net.TCPConn) error {
	if err := p.begin(); err != nil {
		_ = c.Close()
		return err
	}
	if err := p.keep(c); err != nil {
		p.running.Done()
		return err
	}
	go func() {
		defer p.running.Done()
		defer func() { <-p.slots }()
		if !p.meet(c) {
			hangUp(c)
			p.forget(c)
		}
	}()
	return nil
}

// meet finds out what a connection is and brings it where it belongs. It reports whether somebody else now sees to its end.
func (p *Port) meet(c *net.TCPConn) bool {
	_ = c.SetDeadline(time.Now().Add(p.build.handshakeTimeout))
	early := newEarlyConn(c)
	first, err := early.look(1)
	if err != nil {
		return false // somebody who only looked whether the port is open, or hung up
	}
	secured, wantsTLS := p.identity != nil, first[0] == tlsHandshakeRecord
	switch {
	case wantsTLS && secured:
		return p.meetTLS(c, early)
	case wantsTLS:
		p.rejectSecret(c, "a peer speaks TLS: it has a secret, and this node has none", "")
		p.refusePlain(c, "the peer speaks plain text: it has no secret")
		return false
	}
	magic, err := early.look(magicBytes)
	if err != nil || string(magic) != magicLocks && string(magic) != magicGossip {
		p.garbage(c, err)
		return false
	}
	if secured {
		p.rejectSecret(c, "a peer speaks plain text: it has no secret, and this node has one", "")
		p.refusePlain(c, "the peer speaks TLS only: it has a secret, and this node has none")
		return false
	}
	early.seen = nil
	s := &session{socket: c, early: early, stream: early}
	if _, err := c.Write(magic); err != nil {
		return false
	}
	if string(magic) == magicGossip {
		return p.gossip.handOver(s)
	}
	return p.answer(s)
}

// meetTLS does the handshake of TLS, in which both sides prove that they know the secret.
func (p *Port) meetTLS(c *net.TCPConn, early *earlyConn) bool {
	s := &session{socket: c, early: early}
	t := tls.Server(early, p.identity.serverConfig(&s.certName))
	s.stream = t
	if err := t.HandshakeContext(p.ctx); err != nil {
		switch {
		case errors.Is(err, errStranger):
			p.rejectSecret(c, "a peer has another secret", s.certName)
		case isBadCertificate(err):
			p.rejectSecret(c, "a peer refuses our certificate: it has another secret", s.certName)
		default:
			p.garbage(c, err)
		}
		return false
	}
	switch t.ConnectionState().NegotiatedProtocol {
	case protoLocks:
		return p.answer(s)
	case protoGossip:
		return p.gossip.handOver(s)
	}
	p.garbage(c, errors.New("TLS without one of our protocols"))
	return false
}

// isBadCertificate reports whether the peer has ended the handshake because of our certificate.
func isBadCertificate(err error) bool {
	const badCertificate = 42 // RFC 8446, section 6
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == tls.AlertError(badCertificate).Error()
}

// answer reads a hello and answers it.
func (p *Port) answer(s *session) bool {
	s.frames = newFrameReader(s.stream)
	version, frame, err := s.frames.next(maxHandshake)
	if err != nil || version != handshakeVersion {
		p.garbage(s.socket, err)
		return false
	}
	h, err := decodeHello(frame)
	if err != nil {
		p.garbage(s.socket, err)
		return false
	}
	s.peer = h.offer
	var no *refusal
	if s.version, no = p.judge(s, h.want); no != nil {
		p.refuse(s, no)
		return false
	}
	if err := s.say(func(b []byte) []byte { return appendWelcome(b, &welcome{p.own, s.version}) }); err != nil {
		return false
	}
	if h.role == roleGreet {
		p.count.greeted.Add(1)
		return false
	}
	s.settle()
	l, err := p.newLink(s, false)
	if err != nil {
		return false
	}
	p.count.accepted.Add(1)
	p.handler.Linked(l.id, l.peer, false)
	go l.run()
	return true
}

// judge decides about a dialer: the version to speak with it, or why not.
func (p *Port) judge(s *session, want vote.NodeID) (version uint8, no *refusal) {
	refuse := func(r vote.Reason, text string) (uint8, *refusal) {
		return 0, &refusal{self: p.own.self, reason: r, text: text}
	}
	if s.peer.self == p.own.self {
		return refuse(vote.ReasonNone, "the dialer is this very process")
	}
	if text := s.disguised(); text != "" {
		return refuse(vote.ReasonTerms, text)
	}
	if want != "" && want != p.own.self.Node {
		return refuse(vote.ReasonNone, (&WrongNodeError{Want: want, Got: p.own.self.Node}).Error())
	}
	version, text := compare(&p.own, &s.peer)
	if text != "" {
		return refuse(vote.ReasonTerms, text)
	}
	return version, nil
}

// refuse tells a dialer why not, and our log too if somebody should do something about it.
func (p *Port) refuse(s *session, no *refusal) {
	if no.reason != vote.ReasonNone {
		p.count.refused[no.reason].Add(1)
		p.log.warn(topicTerms, "refused a peer", "peer", s.peer.self.Node, "addr", s.socket.RemoteAddr(), "reason", no.text)
	}
	_ = s.say(func(b []byte) []byte { return appendRefusal(b, no) })
}

// refusePlain tells a dialer that speaks the wrong one of TLS and plain text. Who we are is left out: nobody has proved anything.
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
func (p *Port) rejectSecret(c net.Conn, text string, claims vote.NodeID) {
	p.count.refused[vote.ReasonSecret].Add(1)
	p.log.warn(topicSecret, text, "addr", c.RemoteAddr(), "claims", claims)
}

// garbage counts and logs a connection that speaks nothing of ours. One that was cut, or that our own Close ended, is no garbage.
func (p *Port) garbage(c net.Conn, err error) {
	if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return
	}
	if err == nil {
		err = ErrNotLockmesh
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) {
		p.logger.Debug("a connection came to nothing", "addr", c.RemoteAddr(), "error", err)
		return
	}
	p.count.garbage.Add(1)
	p.log.warn(topicGarbage, "dropped a connection that isn't lockmesh's", "addr", c.RemoteAddr(), "error", err)
}
