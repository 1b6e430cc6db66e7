// Package objectfence refuses stale tokens in object storage with conditional writes, such as S3, Azure Blob Storage or Google Cloud
// Storage: each object carries the newest token that has written it, and is replaced only if it is still the version that was looked at.
//
//	report := objectfence.New(store, "billing/report.json")
//	err := report.Put(lease.Context(), lease.Token(), data)
//	if errors.Is(err, fence.ErrStale) {
//		// another holds the lock by now; the object is as that one left it
//	}
//
// A write reads the object, refuses if its token is newer, and puts the new content with the token on the condition that the version hasn't
// changed. If it has, somebody else was first; it looks again, and is refused if that was a newer holder. So a request of a
// stopped holder that arrives late finds another version, and does nothing.
//
// [Store] is the little that a storage must be able to do. [HTTP] does it by If-Match; [Memory] is for tests. [Probe] finds out
// whether a storage heeds conditions at all: some that claim to be compatible accept them and write all the same.
//
// Each object is fenced for itself. A new holder's first write to an object shuts older ones out of that one only; where several belong
// together, let one that is written last name the others. And whoever deletes an object deletes what it has seen: put an
// empty one instead, for as long as a late writer may come.
package objectfence
