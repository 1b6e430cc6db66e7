// Package transport carries the words of the protocol between nodes: ordered streams over TCP, with TLS 1.3 when there is a
// secret, and beside them the packets and streams of gossip, all on one port.
//
// It decides nothing about locks. What it promises is this: a stream is linked only after both sides have proved that they know
// the secret and have found their terms equal; within a stream nothing is lost, repeated or reordered, except that urgent
// messages may overtake the others; what can't be kept breaks the stream; and a peer's bytes can make it neither panic nor
// allocate much.
//
// The codec ([Append], [Decode]) is pure and is used by the simulator as well.
package transport
