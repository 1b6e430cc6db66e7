package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
)

// messageSize is about the size of a request or a vote on the wire.
const messageSize = 64

// echoNode asks several peers at once and takes the first answer. All callers share a connection to
// each peer; messages sent during a write go out together with the next write.
type echoNode struct {
	conns []net.Conn
	slots sync.Pool
	work  sync.WaitGroup

	known atomic.Pointer[[]*echoSlot] // by number; only grows

	mu      sync.Mutex
	all     []*echoSlot
	pending []byte
	spare   []byte
	writing bool
	err     error
}

// echoSlot is the slot of a caller, for a single question at a time.
type echoSlot struct {
	number   uint32
	question atomic.Uint64 // the question waiting for its first answer, or zero
	last     uint64
	answer   chan struct{}
}

func openEcho(_ context.Context, s Spec) (Node, error) {
	n := &echoNode{}
	for _, addr := range s.Addrs {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		n.conns = append(n.conns, c)
	}
	for _, c := range n.conns {
		n.work.Go(func() { n.read(c) })
	}
	return n, nil
}

// Lock is a round trip, and so is Unlock.
func (n *echoNode) Lock(context.Context, string) (Unlock, uint64, error) {
	if err := n.Ask(); err != nil {
		return nil, 0, err
	}
	return n.unlock, 0, nil
}

func (n *echoNode) unlock(context.Context) error { return n.Ask() }

// Ask is a round trip.
func (n *echoNode) Ask() error {
	s, ok := n.slots.Get().(*echoSlot)
	if !ok {
		s = n.newSlot()
	}
	s.last++
	s.question.Store(s.last)
	var message [messageSize]byte
	binary.LittleEndian.PutUint32(message[:], s.number)
	binary.LittleEndian.PutUint64(message[8:], s.last)
	if err := n.send(message[:]); err != nil {
		return err
	}
	<-s.answer
	n.slots.Put(s)
	return nil
}

func (n *echoNode) newSlot() *echoSlot {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &echoSlot{number: uint32(len(n.all)), answer: make(chan struct{}, 1)}
	n.all = append(n.all[:len(n.all):len(n.all)], s)
	all := n.all
	n.known.Store(&all)
	return s
}

// send has the message written, by this caller or by another that is writing.
func (n *echoNode) send(message []byte) error {
	n.mu.Lock()
	n.pending = append(n.pending, message...)
	if n.writing || n.err != nil {
		err := n.err
		n.mu.Unlock()
		return err
	}
	n.writing = true
	n.mu.Unlock()
	runtime.Gosched() // callers about to ask share the write
	n.mu.Lock()
	for len(n.pending) > 0 && n.err == nil {
		batch := n.pending
		n.pending = n.spare[:0]
		n.mu.Unlock()
		var err error
		for _, c := range n.conns {
			if _, e := c.Write(batch); e != nil {
				err = errors.Join(err, e)
			}
		}
		n.mu.Lock()
		n.spare = batch
		n.err = err
	}
	n.writing = false
	err := n.err
	n.mu.Unlock()
	return err
}

func (n *echoNode) read(c net.Conn) {
	buf := make([]byte, echoBuffer)
	have := 0
	for {
		got, err := c.Read(buf[have:])
		have += got
		at := 0
		if have >= messageSize {
			known := *n.known.Load()
			for ; have-at >= messageSize; at += messageSize {
				s := known[binary.LittleEndian.Uint32(buf[at:])]
				if s.question.CompareAndSwap(binary.LittleEndian.Uint64(buf[at+8:]), 0) {
					s.answer <- struct{}{}
				}
			}
		}
		have = copy(buf, buf[at:have])
		if err != nil {
			return
		}
	}
}

func (n *echoNode) Close() error {
	var err error
	for _, c := range n.conns {
		err = errors.Join(err, c.Close())
	}
	n.work.Wait()
	return err
}
