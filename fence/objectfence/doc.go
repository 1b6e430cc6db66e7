// Package objectfence refuses stale tokens in object storage with conditional writes, such as S3,
// Azure Blob Storage or Google Cloud Storage. Each object carries the token of its newest write,
// and is replaced only if its version hasn't changed since it was read.
//
//	report := objectfence.New(store, "billing/report.json")
//	err := report.Put(lease.Context(), lease.Token(), data)
//	if errors.Is(err, fence.ErrStale) {
//		// another client holds the lock by now, and its write remains in place
//	}
//
// A write reads the object, refuses if the object's token is newer, and puts the new content with
// the token on the condition that the version hasn't changed. If the version has changed, another
// write was first; the write then reads the object again, and is refused if the other write came
// from a newer holder. So a late request of a stopped holder finds another version, and does
// nothing.
//
// [Store] is the minimal interface of a storage. [HTTP] implements Store with If-Match; [Memory] is
// for tests. [Probe] tests whether a storage evaluates conditions at all: some storages advertised
// as compatible accept conditions and write unconditionally.
//
// Each object is fenced separately. A new holder's first write to an object shuts older holders out
// of this object only; where several objects belong together, write a last object that names the
// others. And deleting an object deletes its token: put an empty object instead, for as long as a
// late writer may come.
package objectfence
