// Package transport is an implementation package of lockmesh, without a compatibility promise:
// applications use the root package.
//
// It carries the messages of the protocol between nodes: ordered streams over TCP,
// with TLS 1.3 when there is a secret, and beside them the packets and streams of gossip, all on
// the same port.
//
// The package decides nothing about locks. It makes four promises. A stream is linked only after
// both sides have proved knowledge of the secret, if there is one, and have found their terms
// equal. Within a stream no message is lost, repeated or reordered, except for urgent messages,
// which may overtake the others. Where these promises can't be kept, the stream is broken. And a
// peer's bytes can cause neither a panic nor a large allocation.
//
// The codec ([Append], [Decode]) is pure and is used by the simulator as well.
package transport
