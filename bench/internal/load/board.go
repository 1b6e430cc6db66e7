package load

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"
)

// Board is a page of memory shared by all processes that contend for a key. Only the holder of the
// key writes, so the board shows the real events: how often the key moved between nodes, and
// whether the key ever had two holders at once.
type Board struct {
	page  *page
	close func() error
}

type page struct {
	Inside           atomic.Int64  // the number of current holders
	Last             atomic.Int64  // the node of the last holder, from 1
	HandOvers        atomic.Int64  // between nodes
	Overlaps         atomic.Int64  // holders that came while the key had another holder
	Token            atomic.Uint64 // of the last holder
	TokenRegressions atomic.Int64  // tokens not larger than the last
}

// NewBoard makes a board for this process only.
func NewBoard() *Board { return &Board{page: &page{}, close: func() error { return nil }} }

// CreateBoard makes the file of a board shared by processes.
func CreateBoard(path string) error {
	return os.WriteFile(path, make([]byte, unsafe.Sizeof(page{})), 0o600)
}

// OpenBoard maps the file of a shared board.
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

// Hold records that a node has the key, with the token of the lock or zero if there is none. If
// counts is set, a hand-over between nodes is counted.
func (b *Board) Hold(node int, token uint64, counts bool) {
	p := b.page
	if p.Inside.Add(1) != 1 {
		p.Overlaps.Add(1)
	}
	if last := p.Last.Swap(int64(node + 1)); counts && last != 0 && last != int64(node+1) {
		p.HandOvers.Add(1)
	}
	if token != 0 && p.Token.Swap(token) >= token {
		p.TokenRegressions.Add(1)
	}
}

// Free records that the key is about to be released.
func (b *Board) Free() { b.page.Inside.Add(-1) }

// HandOvers returns how often the key moved from a node to another.
func (b *Board) HandOvers() int { return int(b.page.HandOvers.Load()) }

// Check returns an error about impossible events: two holders at once, or tokens that don't rise.
func (b *Board) Check() error {
	var err error
	if n := b.page.Overlaps.Load(); n > 0 {
		err = fmt.Errorf("%d times a client got a key that another held", n)
	}
	if n := b.page.TokenRegressions.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d times a token wasn't larger than the one before it", n))
	}
	return err
}
