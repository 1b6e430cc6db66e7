package transport

import (
	"bytes"
	"compress/lzw"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// squeezed is a gossip message that memberlist unpacks to megabytes: kind 9, and msgpack of an
// algorithm and the bytes.
func squeezed(size int) []byte {
	var out bytes.Buffer
	w := lzw.NewWriter(&out, lzw.LSB, 8)
	_, _ = w.Write(make([]byte, size))
	_ = w.Close()
	b := []byte{gossipCompress, 0x82, 0xa4, 'A', 'l', 'g', 'o', 0, 0xa3, 'B', 'u', 'f', 0xc5}
	b = binary.BigEndian.AppendUint16(b, uint16(out.Len()))
	return append(b, out.Bytes()...)
}

func labelled(label string, b []byte) []byte {
	return append(append([]byte{gossipLabel, byte(len(label))}, label...), b...)
}

func checksummed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{gossipChecksum}, crc32.ChecksumIEEE(b)), b...)
}

func compound(parts ...[]byte) []byte {
	b := []byte{gossipCompound, byte(len(parts))}
	for _, p := range parts {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
	}
	return append(b, bytes.Join(parts, nil)...)
}

func sealed(t testing.TB, key []byte, label string, b []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{gossipSealedNow}, append(make([]byte, gossipNonce), gcm.Seal(nil, make([]byte, gossipNonce), b, []byte(label))...)...)
}

var pingOfTests = []byte{0, 0x80}

// A change of the secrets also changes the keys for the inspection of packets.
func TestCompressedPacketsAreRefusedAfterTheSecretHasChanged(t *testing.T) {
	p := open(t, config("a", secretA))
	old := p.GossipKeys()[0]
	keys, err := p.SetSecrets([][]byte{secretB})
	if err != nil {
		t.Fatal(err)
	}
	packet := func(key []byte) []byte { return labelled("default", sealed(t, key, "default", squeezed(1<<20))) }
	if !p.gossip.unpacker.refuses(packet(keys[0])) {
		t.Error("a compressed packet under the new key is passed on")
	}
	if p.gossip.unpacker.refuses(packet(old)) {
		t.Error("a packet under the old key is still opened; memberlist is to drop it")
	}
}

func TestCompressedPacketsAreRefused(t *testing.T) {
	bomb := squeezed(1 << 20)
	for _, m := range modes {
		for _, row := range []struct {
			name   string
			packet []byte
			refuse bool
		}{
			{"a ping", pingOfTests, false},
			{"a ping with a checksum", checksummed(pingOfTests), false},
			{"pings together", compound(pingOfTests, []byte{}, pingOfTests), false},
			{"nothing", nil, false},
			{"compressed", bomb, true},
			{"compressed, with a checksum", checksummed(bomb), true},
			{"compressed, beside others", compound(pingOfTests, bomb), true},
			{"compressed, beside others, with a checksum", checksummed(compound(bomb, pingOfTests)), true},
			{"compressed, before what is cut off", append(compound(bomb, pingOfTests)[:len(bomb)+6], 0), true},
			{"together in together", compound(pingOfTests, compound(bomb)), true},
		} {
			t.Run(m.name+"/"+row.name, func(t *testing.T) {
				p := open(t, config("a", m.secret))
				packet := row.packet
				for _, key := range p.GossipKeys() {
					packet = sealed(t, key, "default", packet)
				}
				packet = labelled("default", packet)
				c, err := net.Dial("udp", p.at)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Write(packet); err != nil {
					t.Fatal(err)
				}
				if row.refuse {
					testwait.Until(t, "it is counted and logged", func() bool { return p.Stats().Compressed == 1 && p.log.has("compressed") })
					if n := len(p.Gossip().PacketCh()); n != 0 {
						t.Errorf("%d packets were handed over", n)
					}
					return
				}
				if got := get(t, p.Gossip().PacketCh(), "the packet"); !bytes.Equal(got.Buf, packet) {
					t.Errorf("the packet came as %x", got.Buf)
				}
			})
		}
	}
}

// A stream arrives in pieces of any size; on a compressed stream memberlist's read ends with an
// error.
func TestCompressedStreamsAreRefused(t *testing.T) {
	for _, row := range []struct {
		name   string
		stream []byte
		refuse bool
	}{
		{"members", append(labelled("default", []byte{6}), make([]byte, 300)...), false},
		{"an answer, which has no label", append([]byte{6}, bytes.Repeat([]byte{gossipCompress}, 300)...), false},
		{"a label with that byte", append(labelled("\x09\xf4\x09", []byte{6}), gossipCompress), false},
		{"compressed", labelled("default", squeezed(1<<20)), true},
		{"compressed, without a label", squeezed(1 << 20), true},
	} {
		for _, slow := range []bool{false, true} {
			var from io.Reader = bytes.NewReader(row.stream)
			if slow {
				from = iotest.OneByteReader(from)
			}
			refused := false
			got, err := io.ReadAll(&streamFilter{Conn: connOf{Reader: from}, refused: func() { refused = true }})
			if row.refuse != refused || row.refuse != (err == errCompressed) || !row.refuse && !bytes.Equal(got, row.stream) {
				t.Errorf("%s, in single bytes %t: %d of %d bytes, error %v", row.name, slow, len(got), len(row.stream), err)
			}
		}
	}
}

// connOf is a read-only connection.
type connOf struct {
	io.Reader
	net.Conn
}

func (c connOf) Read(b []byte) (int, error) { return c.Reader.Read(b) }

// For any bytes, the inspection of a packet neither panics nor misses a part that memberlist would
// unpack.
func FuzzUnpacker(f *testing.F) {
	f.Add(labelled("default", checksummed(compound(pingOfTests, squeezed(1000)))))
	f.Add(compound(pingOfTests, compound(squeezed(10))))
	f.Add([]byte{gossipLabel, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		plain := &unpacker{}
		refused := plain.refuses(b)
		if again := plain.refuses(labelled("x", b)); len(b) > 0 && b[0] != gossipLabel && again != refused {
			t.Errorf("refused %t, and with a label %t", refused, again)
		}
		if len(b) > 0 && b[0] == gossipCompress && !refused {
			t.Error("what is compressed was let in")
		}
	})
}
