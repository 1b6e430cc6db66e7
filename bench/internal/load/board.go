package load

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"
)

// Board is a page of memory that all processes share which contend for a key. Only who holds the key writes, so it shows what really happened: how often
// the key went from one node to another, and whether two ever held it at once.
type Board struct {
	page  *page
	close func() error
}

type page struct {
	Inside    atomic.Int64  // how many hold the key right now
	Last      atomic.Int64  // the node that held it last, from 1
	HandOvers atomic.Int64  // between nodes
	Intruders atomic.Int64  // who came in while another was inside
	Token     atomic.Uint64 // of the last holder
	Backwards atomic.Int64  // tokens that weren't larger than the last
}

// NewBoard makes a board of this process's own.
func NewBoard() *Board { return &Board{page: &page{}, close: func() error { return nil }} }

// CreateBoard makes the file of a board that processes share.
func CreateBoard(path string) error {
	return os.WriteFile(path, make([]byte, unsafe.Sizeof(page{})), 0o600)
}

// OpenBoard shares a board.
func OpenBoard(path string) (*Board, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, unmap, err := mapFile(f, int(unsafe.Sizeof(page{})))
	if err != nil {
		return nil, fmt.Errorf("a board: %w", err)
	}
	return &Board{page: (*page)(unsafe.Pointer(&raw[0])), close: unmap}, nil
}

// Close ends the use of a board.
func (b *Board) Close() error { return b.close() }

// Hold notes that a node has the key, by a token that is zero if there is none. When it counts, a hand-over between nodes is counted.
func (b *Board) Hold(node int, token uint64, counts bool) {
	p := b.page
	if p.Inside.Add(1) != 1 {
		p.Intruders.Add(1)
	}
	if last := p.Last.Swap(int64(node + 1)); counts && last != 0 && last != int64(node+1) {
		p.HandOvers.Add(1)
	}
	if token != 0 && p.Token.Swap(token) >= token {
		p.Backwards.Add(1)
	}
}

// Free notes that the key is about to be given back.
func (b *Board) Free() { b.page.Inside.Add(-1) }

// HandOvers is how often the key went from one node to another.
func (b *Board) HandOvers() int { return int(b.page.HandOvers.Load()) }

// Check says what must not have happened.
func (b *Board) Check() error {
	var err error
	if n := b.page.Intruders.Load(); n > 0 {
		err = fmt.Errorf("%d times somebody got a key that another held", n)
	}
	if n := b.page.Backwards.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d times a token wasn't larger than the one before it", n))
	}
	return err
}
