// Package fence lets the thing that a lock protects refuse those who come late.
//
// A holder can be stopped for any time between its last look at its lease and its write. By then another may hold the lock and have
// written. No lock can prevent that; what is written to can. Every lease has a token, larger than that of each earlier lease on the
// key. The resource remembers the newest token that it has seen, and refuses writes that come with an older one.
//
// Who remembers, and for how long, decides what is promised:
//
//   - [Guard] remembers in the memory of one process, through which all writes go; [Guards] does so for many resources. It forgets
//     when that process ends.
//   - Package sqlfence remembers in a table beside the data. Check and write commit together, or not at all.
//   - Package objectfence remembers in the stored object itself, by writes that are conditional on its version.
//   - [Resource] is what they have in common, for adapters of your own. Package fencetest tests those.
//
// The rules are the same for all. An equal token is accepted, as a holder may write often. Token 0 is nobody's, and is refused, as is
// one of more than 63 bits. What has seen nothing accepts any token. One resource belongs to one key: tokens of different keys say
// nothing about each other.
//
// A token is no password. Whoever may send tokens can send [MaxToken], after which nobody else gets in.
package fence
