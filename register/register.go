// Package register keeps a small record with the name of the only mesh that may act. The register
// is for processes with neither fixed names nor disks (lockmesh.Config.Expect).
//
// Without a register, such a mesh promises exclusion as long as no more than a certain number of
// processes run at once. With a register the mesh needs no such bound: processes found a mesh only
// once the register names the mesh, and voters act only while able to write the register from time
// to time. docs/fleets.md has the costs.
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

// Register is a place for a single record, with compare-and-set. Each mesh needs a register of its
// own, within reach of all nodes of the mesh but NonVoting nodes. lockmesh makes a single call at a
// time, and the context of a call ends after some seconds; a method must return soon after the end
// of the context. Until the method returns, lockmesh makes no other call. At the end of the node
// Close, Leave and Stop wait for the method no longer than a second; afterwards a goroutine stays
// until the method returns. Other processes make calls at the same time.
//
// A record must never return to an earlier content, as by restoring a backup, and never be deleted
// while processes of the mesh run: either may let two meshes act.
type Register interface {
	// Load returns the record and the version of the content; no other content ever has the same
	// version. Without a record Load returns no bytes. An earlier content, from a replica that is
	// behind for a moment, does no harm: Store compares the version with the present version.
	// Behind a replica that has stopped, a process doesn't vote.
	Load(ctx context.Context) (record []byte, version string, err error)

	// Store replaces the record if its version is still the given version, as returned by Load, or
	// creates the record if Load found none. Otherwise Store changes nothing and returns ErrChanged
	// or an error that wraps ErrChanged. After any other error the record may have been replaced,
	// or may be replaced later. Each process repeats its first Store with the same arguments, to
	// see the Store refused.
	//
	// The storage must not lose an acknowledged Store when a replica or disk fails: a storage that
	// acknowledges a write before a majority of the replicas, or before the disk, has the write is
	// not fit.
	Store(ctx context.Context, record []byte, version string) error
}

// ErrChanged means that the record has changed since the caller's Load.
var ErrChanged = errors.New("register: the record has changed")

// MaxRecord is the largest size of a record in bytes.
const MaxRecord = 4096
