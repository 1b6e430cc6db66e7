package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/register"
)

// registerTimeout is the longest time that a register call may take. A register answers within
// milliseconds; a voter has several tries in a term.
const registerTimeout = 10 * time.Second

// registerTries is how many calls without an answer fit into a term at least, so that a single call
// without an answer doesn't stop a voter.
const registerTries = 6

// callRegister makes the node's register calls, one at a time, until the node stops.
func (eng *Engine) callRegister() {
	r := registrar{register: eng.cfg.Register}
	failing := make(map[bool]bool) // the last call that stores, and the last that doesn't
	for {
		select {
		case call := <-eng.registerCalls:
			ctx, cancel := context.WithTimeout(eng.ctx, min(registerTimeout, call.Term/registerTries))
			result := r.do(ctx, &call)
			cancel()
			if eng.ctx.Err() != nil {
				return
			}
			was := failing[true] || failing[false]
			failing[call.Store] = result.Failed != ""
			switch is := failing[true] || failing[false]; {
			case is && !was:
				eng.log.Warn("the register can't be used; will retry", "error", result.Failed)
			case !is && was:
				eng.log.Info("the register can be used again")
			}
			eng.loop.box.post(true, func(now vote.Now) {
				eng.loop.node.Registered(now, result)
				eng.loop.electorate.dialsStale = true
			})
		case <-eng.ctx.Done():
			return
		}
	}
}

// registrar makes the calls of one process, and remembers the version of the record that it has
// seen last.
type registrar struct {
	register register.Register
	version  string
	record   vote.RegisterRecord // of that version
	seen     bool
}

// do makes a call and returns its result.
func (r *registrar) do(ctx context.Context, call *vote.RegisterCall) vote.RegisterResult {
	if !call.Store || !r.seen {
		if err := r.load(ctx); err != nil {
			r.seen = false
			return vote.RegisterResult{Failed: errs.Text(err)}
		}
	}
	if !call.Store {
		return vote.RegisterResult{Record: r.record}
	}
	if r.record != call.Old {
		return vote.RegisterResult{Changed: true}
	}
	r.seen = false // the version of what is stored now is unknown
	switch err := r.register.Store(ctx, encodeRegister(&call.New), r.version); {
	case err == nil:
		return vote.RegisterResult{}
	case errors.Is(err, register.ErrChanged):
		return vote.RegisterResult{Changed: true}
	default:
		return vote.RegisterResult{Failed: errs.Text(err)}
	}
}

func (r *registrar) load(ctx context.Context) error {
	data, version, err := r.register.Load(ctx)
	if err != nil {
		return err
	}
	r.record = vote.RegisterRecord{}
	if len(data) > 0 {
		if r.record, err = decodeRegister(data); err != nil {
			return err
		}
	}
	r.version, r.seen = version, true
	return nil
}

// registerFormat is the version of the record's encoding.
const registerFormat = 1

// registerFile is the encoding of a record: JSON, for people who look at it.
type registerFile struct {
	Format   int    `json:"lockmesh_register"`
	Mesh     string `json:"mesh"`
	Lineage  string `json:"lineage"`
	Term     string `json:"term"`
	MaxTTL   string `json:"max_ttl"`
	Renewal  uint64 `json:"renewal"`
	Writer   string `json:"writer"`
	Identity string `json:"writer_identity"`
}

func encodeRegister(r *vote.RegisterRecord) []byte {
	data, err := json.Marshal(registerFile{
		Format: registerFormat, Mesh: r.Mesh, Lineage: hex(r.Lineage), Term: r.Term.String(), MaxTTL: r.MaxTTL.String(),
		Renewal: r.Renewal, Writer: string(r.Writer.Name), Identity: hex(uint64(r.Writer.Dir)),
	})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return data
}

func hex(n uint64) string { return strconv.FormatUint(n, 16) }

// decodeRegister decodes a record. It accepts only what encodeRegister makes.
func decodeRegister(data []byte) (vote.RegisterRecord, error) {
	bad := func(what string) error {
		return fmt.Errorf("the register holds something else than a record of lockmesh (%s): use another place for it, or remove what is there if no process of the mesh runs", what)
	}
	if len(data) > register.MaxRecord {
		return vote.RegisterRecord{}, bad(fmt.Sprintf("%d bytes", len(data)))
	}
	var f registerFile
	if err := json.Unmarshal(data, &f); err != nil {
		return vote.RegisterRecord{}, bad(err.Error())
	}
	if f.Format > registerFormat {
		return vote.RegisterRecord{}, fmt.Errorf("the register's record has format %d, of a later version of lockmesh; this version knows format %d", f.Format, registerFormat)
	}
	lineage, err1 := strconv.ParseUint(f.Lineage, 16, 64)
	identity, err2 := strconv.ParseUint(f.Identity, 16, 64)
	term, err3 := time.ParseDuration(f.Term)
	maxTTL, err4 := time.ParseDuration(f.MaxTTL)
	switch {
	case f.Format != registerFormat:
		return vote.RegisterRecord{}, bad("no format")
	case err1 != nil || lineage == 0:
		return vote.RegisterRecord{}, bad(fmt.Sprintf("the lineage is %q", f.Lineage))
	case err2 != nil || identity == 0:
		return vote.RegisterRecord{}, bad(fmt.Sprintf("the writer's identity is %q", f.Identity))
	case err3 != nil || term <= 0 || term > math.MaxInt64/4:
		return vote.RegisterRecord{}, bad(fmt.Sprintf("the term is %q", f.Term))
	case err4 != nil || maxTTL <= 0 || maxTTL > vote.LongestTTL:
		return vote.RegisterRecord{}, bad(fmt.Sprintf("the max_ttl is %q", f.MaxTTL))
	case len(f.Writer) > vote.MaxNameLen || f.Renewal == 0 || f.Renewal > math.MaxInt64:
		return vote.RegisterRecord{}, bad("a writer or a renewal that can't be")
	}
	return vote.RegisterRecord{
		Mesh: f.Mesh, Lineage: lineage, Term: term, MaxTTL: maxTTL, Renewal: f.Renewal, Writer: vote.Elector{Name: vote.NodeID(f.Writer), Dir: vote.Dir(identity)},
	}, nil
}
