// Package fence enables a resource protected by a lock to refuse writes by earlier holders of the
// lock.
//
// A holder can be stopped for any time between its last check of its lease and its write. By then
// another holder may have acquired the lock and have written. No lock can prevent a late write; the
// written resource can. Every lease has a fencing token, larger than the token of each earlier
// lease on the key. The resource remembers the newest token seen, and refuses writes with an older
// token.
//
// The guarantee depends on where the token is remembered, and for how long:
//
//   - [Guard] remembers the token in the memory of one process, through which all writes go;
//     [Guards] does so for many resources. Both forget when the process ends.
//   - Package sqlfence remembers the token in a table beside the data. Check and write commit
//     together, or not at all.
//   - Package objectfence remembers the token in the stored object itself, by writes that are
//     conditional on the object's version.
//   - [Resource] is their common interface, for adapters of your own. Package fencetest tests
//     adapters.
//
// The rules are the same for all. An equal token is accepted, as a holder may write often. Token 0
// belongs to no lease and is refused, as is a token of more than 63 bits. A resource that has seen
// no token accepts any. A resource belongs to one key: tokens of different keys can't be compared.
//
// A token is no password. Any client able to send tokens can send [MaxToken], after which the
// resource refuses all other clients.
package fence
