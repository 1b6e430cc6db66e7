// Package record encodes and decodes the record of a register, which says which mesh may act
// (package register). Nodes and `lockmesh doctor` decode records by this package alone, so doctor
// refuses what a node refuses.
package record

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/register"
)

// Format is the version of the encoding, the only one that this build writes and reads.
const Format = 1

// file is the encoding of a record: JSON, for people who look at the register.
type file struct {
	Format   int    `json:"lockmesh_register"`
	Mesh     string `json:"mesh"`
	Lineage  string `json:"lineage"`
	Term     string `json:"term"`
	MaxTTL   string `json:"max_ttl"`
	Renewal  uint64 `json:"renewal"`
	Writer   string `json:"writer"`
	Identity string `json:"writer_identity"`
}

// Encode returns the encoding of a record that isn't zero. The result has at most
// [register.MaxRecord] bytes.
func Encode(r *vote.RegisterRecord) []byte {
	data, err := json.Marshal(file{
		Format: Format, Mesh: r.Mesh, Lineage: hex(r.Lineage),
		Term: r.Term.String(), MaxTTL: r.MaxTTL.String(),
		Renewal: r.Renewal, Writer: string(r.Writer.Name), Identity: hex(uint64(r.Writer.Dir)),
	})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return data
}

func hex(n uint64) string { return strconv.FormatUint(n, 16) }

// Error says why the content of a register is no record that this build can use.
type Error struct {
	Reason string // what the register holds
	Advice string // what an operator can do
}

// Error returns the reason and the advice.
func (e *Error) Error() string { return e.Reason + ": " + e.Advice }

// Decode decodes a record. No data is the zero record: the register has none yet. The error for
// data that no node of this version writes is an [*Error]; fields unknown to this version are
// ignored.
func Decode(data []byte) (vote.RegisterRecord, error) {
	if len(data) == 0 {
		return vote.RegisterRecord{}, nil
	}
	if len(data) > register.MaxRecord {
		return vote.RegisterRecord{}, bad("%d bytes", len(data))
	}
	var f file
	err := json.Unmarshal(data, &f)
	// A later format may have other types in the same fields: what Unmarshal then finds wrong says
	// less than the format, which Unmarshal has decoded nevertheless.
	switch {
	case f.Format > Format:
		return vote.RegisterRecord{}, &Error{
			Reason: fmt.Sprintf("the register's record has format %d, of a later version of lockmesh; "+
				"this version knows format %d", f.Format, Format),
			Advice: "update lockmesh on this machine, or give each mesh a register of its own",
		}
	case err != nil:
		return vote.RegisterRecord{}, bad("%v", err)
	case f.Format != Format:
		return vote.RegisterRecord{}, bad("no format")
	}
	lineage, err1 := strconv.ParseUint(f.Lineage, 16, 64)
	identity, err2 := strconv.ParseUint(f.Identity, 16, 64)
	term, err3 := time.ParseDuration(f.Term)
	maxTTL, err4 := time.ParseDuration(f.MaxTTL)
	switch {
	case err1 != nil || lineage == 0:
		return vote.RegisterRecord{}, bad("the lineage is %q", f.Lineage)
	case err2 != nil || identity == 0:
		return vote.RegisterRecord{}, bad("the writer's identity is %q", f.Identity)
	case err3 != nil || term <= 0 || term > math.MaxInt64/4:
		return vote.RegisterRecord{}, bad("the term is %q", f.Term)
	case err4 != nil || maxTTL <= 0 || maxTTL > vote.LongestTTL:
		return vote.RegisterRecord{}, bad("the max_ttl is %q", f.MaxTTL)
	case len(f.Writer) > vote.MaxNameLen || f.Renewal == 0 || f.Renewal > math.MaxInt64:
		return vote.RegisterRecord{}, bad("a writer or a renewal that can't be")
	}
	return vote.RegisterRecord{
		Mesh: f.Mesh, Lineage: lineage, Term: term, MaxTTL: maxTTL, Renewal: f.Renewal,
		Writer: vote.Elector{Name: vote.NodeID(f.Writer), Dir: vote.Dir(identity)},
	}, nil
}

// bad returns the error for what no version of lockmesh writes.
func bad(format string, args ...any) *Error {
	return &Error{
		Reason: fmt.Sprintf("the register holds something else than a record of lockmesh ("+format+")", args...),
		Advice: "use another place for the register, " +
			"or remove what is there if no process of the mesh runs",
	}
}
