// Package register keeps the one small record that says which mesh may act, for meshes whose
// processes have neither fixed names nor disks (lockmesh.Config.Expect).
//
// Without a register, such a mesh promises exclusion as long as no more than a certain number of
// its processes run at once. With a register it needs no such bound: processes found a mesh only
// once the register names it, and voters act only while they can write the register from time to
// time. See docs/fleets.md for what that costs.
//
// A register is any storage with compare-and-set for a few hundred bytes. Package kuberegister
// keeps the record in a ConfigMap of Kubernetes, package objectregister in an object with
// conditional writes, package sqlregister in a row of an SQL table. Package registertest tests a
// [Register] of your own. The register is used at the birth of a mesh, and by each voter three
// times in a lockmesh.Config.RegisterTerm; never for a lock.
package register

import (
	"context"
	"errors"
)

// Register is a place for one record, with compare-and-set. Each mesh needs a register of its own,
// which all of its nodes that may vote reach. lockmesh makes one call at a time, with a context
// that ends after some seconds; a method must return soon after its context has ended. Until the
// method returns, lockmesh makes no other call. At the end of the node Close, Leave and Stop wait
// for the method no longer than a second; after that, a goroutine stays until the method returns.
// Other processes make calls at the same time.
//
// A record must never be taken back to an earlier content, as by restoring a backup, and never be
// deleted while processes of the mesh run: either may let two meshes act.
type Register interface {
	// Load returns the record and the version of its content, which no other content ever has. The
	// record is empty if there is none. An earlier content, from a replica that is behind, does no
	// harm: Store compares with the present one.
	Load(ctx context.Context) (record []byte, version string, err error)

	// Store replaces the record if its version is still the given version, as returned by Load, or
	// creates the record if Load found none. Otherwise Store changes nothing and returns ErrChanged
	// or an error that wraps ErrChanged. After any other error the record may have been replaced,
	// or may be replaced later.
	//
	// The storage must not lose an acknowledged Store when a replica or disk fails: a storage that
	// acknowledges a write before a majority of the replicas, or before the disk, has the write is
	// not fit.
	Store(ctx context.Context, record []byte, version string) error
}

// ErrChanged means that the record isn't the one that was to be replaced.
var ErrChanged = errors.New("register: the record has changed")

// MaxRecord is the largest size of a record in bytes.
const MaxRecord = 4096
