// Package certmagiclock gives any storage of certmagic locks from a mesh: certmagic keeps its
// certificates in the same storage as before, and the processes that share the certificates agree
// over the mesh which process obtains or renews a certificate.
//
//	certmagic.Default.Storage = certmagiclock.Wrap(certmagic.Default.Storage, mesh)
//
// A wrapped storage has certmagic's Locker, TryLocker and LockLeaseRenewer, even if the original
// storage doesn't.
package certmagiclock
