package elect

import "encoding/binary"

// node is the part of a world about one node.
type node struct {
	local        uint32 // the state of the machine; 0 while the node is down
	disk         uint32
	before       uint32 // the contents of the disk before the last save
	incarnations uint8
	idles        uint8 // how often the node's clock has gone on by itself
	// joined is since when the disk has had the joint electorate: 0 not yet, 1 since the last drain
	// or later, 2 since before the last drain.
	joined uint8
}

// lane holds the messages under way in one direction of one connection. Each message takes four
// bytes: the generation of the connection, and the message's number.
type lane string

const packet = 4

func (l lane) add(gen uint8, msg uint32) lane {
	return l + lane([]byte{gen, byte(msg >> 16), byte(msg >> 8), byte(msg)})
}

func (l lane) at(i int) (gen uint8, msg uint32) {
	return l[i], uint32(l[i+1])<<16 | uint32(l[i+2])<<8 | uint32(l[i+3])
}

func (l lane) without(i int) lane { return l[:i] + l[i+packet:] }

// world is a state of the whole system. The decisions, and the times since when disks have had the
// joint electorate, serve the judge alone.
type world struct {
	nodes [maxNodes]node
	asks  [maxNodes][maxNodes]lane // [from][to], on the connection dialed by from
	tells [maxNodes][maxNodes]lane // [from][to], answers on the connection dialed by to

	decided                         [finalVersion + 1]uint16 // by version
	proposed                        uint8                    // the proposals made so far, as bits
	crashes, failures, cuts, drains uint8                    // how many may still happen
	waits                           uint8
}

// The versions of one change.
const (
	firstVersion = 1 + iota
	jointVersion
	finalVersion
)

func (x *explorer) pack(w *world, b []byte) []byte {
	for i := range x.nodes {
		n := &w.nodes[i]
		b = binary.AppendUvarint(b, uint64(n.local))
		b = binary.AppendUvarint(b, uint64(n.disk))
		b = append(b, n.incarnations<<4|n.idles<<2|n.joined)
		if x.o.lossy {
			b = binary.AppendUvarint(b, uint64(n.before))
		}
		for j := range x.nodes {
			if i != j {
				for _, l := range [...]lane{w.asks[i][j], w.tells[i][j]} {
					b = append(b, byte(len(l)/packet))
					b = append(b, l...)
				}
			}
		}
	}
	for _, d := range w.decided[jointVersion:] {
		b = binary.AppendUvarint(b, uint64(d))
	}
	return append(b, w.proposed, w.crashes, w.failures, w.cuts, w.drains, w.waits)
}

func (x *explorer) unpack(b []byte, w *world) {
	word := func() uint64 {
		v, k := binary.Uvarint(b)
		b = b[k:]
		return v
	}
	take := func(n int) []byte {
		p := b[:n]
		b = b[n:]
		return p
	}
	*w = world{}
	for i := range x.nodes {
		n := &w.nodes[i]
		n.local, n.disk = uint32(word()), uint32(word())
		c := take(1)[0]
		n.incarnations, n.idles, n.joined = c>>4, c>>2&3, c&3
		if x.o.lossy {
			n.before = uint32(word())
		}
		for j := range x.nodes {
			if i != j {
				w.asks[i][j] = lane(take(int(take(1)[0]) * packet))
				w.tells[i][j] = lane(take(int(take(1)[0]) * packet))
			}
		}
	}
	w.decided[firstVersion] = 1 // the value that was numbered first
	for v := jointVersion; v <= finalVersion; v++ {
		w.decided[v] = uint16(word())
	}
	c := take(6)
	w.proposed, w.crashes, w.failures, w.cuts, w.drains, w.waits = c[0], c[1], c[2], c[3], c[4], c[5]
}
