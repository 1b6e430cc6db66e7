package transport

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
)

// This package's nodes never compress gossip (see package member), but memberlist would decompress
// incoming data, up to 40 MB from a packet of 16 kB. Packets and streams with compressed content
// are therefore refused before they reach memberlist.

// The first bytes of the memberlist message kinds relevant here; memberlist's net.go has the full
// list.
const (
	gossipCompound = 7
	gossipCompress = 9
	gossipChecksum = 12
	gossipLabel    = 244
	checksumBytes  = 4
	gossipNonce    = 12
	// gossipSealedNow is the version of encryption without padding, the version in use.
	gossipSealedNow = 1
)

// errCompressed: the received gossip is compressed.
var errCompressed = errors.New("gossip came in compressed, which no node of a mesh sends")

// unpacker inspects packets of gossip for compressed content.
type unpacker struct {
	keys atomic.Pointer[[]cipher.AEAD] // nil: packets are plain
}

// setKeys changes the keys by which packets are read.
func (u *unpacker) setKeys(keys []*key) error {
	var all []cipher.AEAD
	for _, k := range keys {
		block, err := aes.NewCipher(k.gossip)
		if err != nil {
			return err
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			return err
		}
		all = append(all, gcm)
	}
	u.keys.Store(&all)
	return nil
}

// open decrypts a packet by the key that fits; nil if none does.
func (u *unpacker) open(keys []cipher.AEAD, nonce, sealed, label []byte) []byte {
	for _, k := range keys {
		if plain, err := k.Open(nil, nonce, sealed, label); err == nil {
			return plain
		}
	}
	return nil
}

// refuses reports whether memberlist would find compressed content in a packet, or a compound
// inside a compound, where compressed content could hide. A packet that memberlist drops anyway
// isn't refused here, since memberlist logs the reason.
func (u *unpacker) refuses(b []byte) bool {
	var label []byte
	if len(b) >= 2 && b[0] == gossipLabel {
		end := 2 + int(b[1])
		if len(b) < end {
			return false
		}
		label, b = b[2:end], b[end:]
	}
	if keys := u.keys.Load(); keys != nil {
		if len(b) < 1+gossipNonce {
			return false
		}
		plain := u.open(*keys, b[1:1+gossipNonce], b[1+gossipNonce:], label)
		if plain == nil {
			return false
		}
		if b[0] != gossipSealedNow {
			return true // the older version of encryption, with padding, isn't inspected
		}
		b = plain
	}
	if len(b) > checksumBytes && b[0] == gossipChecksum {
		b = b[1+checksumBytes:]
	}
	if len(b) == 0 {
		return false
	}
	if b[0] != gossipCompound {
		return b[0] == gossipCompress
	}
	return compoundHolds(b[1:], func(first byte) bool { return first == gossipCompress || first == gossipCompound })
}

// compoundHolds reports whether a part of a compound begins with a byte that satisfies such. A
// compound is a count, as many lengths of two bytes, and the parts. As memberlist does,
// compoundHolds stops at the first truncated part.
func compoundHolds(b []byte, such func(byte) bool) bool {
	if len(b) == 0 {
		return false
	}
	count := int(b[0])
	b = b[1:]
	if len(b) < 2*count {
		return false
	}
	lengths, parts := b[:2*count], b[2*count:]
	for i := range count {
		n := int(binary.BigEndian.Uint16(lengths[2*i:]))
		if n > len(parts) {
			return false
		}
		if n > 0 && such(parts[0]) {
			return true
		}
		parts = parts[n:]
	}
	return false
}

// streamFilter inspects the first bytes read from a stream of gossip: an optional label, and the
// message kind after the label. A stream carries one message in each direction. Content that a
// member has encrypted inside TLS isn't inspected.
type streamFilter struct {
	net.Conn
	refused func()

	begun, done bool
	skip        int  // bytes of the label still to be read
	size        bool // the next byte is the label's length
}

// Read implements io.Reader.
func (f *streamFilter) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.done {
		return n, err
	}
	for _, c := range b[:n] {
		switch {
		case f.size:
			f.size, f.skip = false, int(c)
		case f.skip > 0:
			f.skip--
		case c == gossipLabel && !f.begun:
			f.size = true
		case c == gossipCompress:
			f.refused()
			return 0, errCompressed
		default:
			f.done = true
			return n, err
		}
		f.begun = true
	}
	return n, err
}
