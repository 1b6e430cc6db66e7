package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/record"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/register"
)

func aRecord(renewal uint64) vote.RegisterRecord {
	return vote.RegisterRecord{
		Mesh: "orders", Lineage: 7, Term: 90 * time.Second, MaxTTL: 10 * time.Second, Renewal: renewal, Writer: vote.Elector{Name: "a", Dir: 9},
	}
}

// A process stores only in place of the record last loaded.
func TestARegistrarComparesBeforeItStores(t *testing.T) {
	m := new(register.Memory)
	one, other := registrar{register: m}, registrar{register: m}
	load := vote.RegisterCall{}
	do := func(r *registrar, call vote.RegisterCall) vote.RegisterResult {
		t.Helper()
		return r.do(t.Context(), &call)
	}
	if got := do(&one, load); got != (vote.RegisterResult{}) {
		t.Errorf("%+v", got)
	}
	do(&other, load)
	add := vote.RegisterCall{Store: true, New: aRecord(1)}
	if got := do(&one, add); got != (vote.RegisterResult{}) {
		t.Errorf("%+v", got)
	}
	if got := do(&other, add); !got.Changed {
		t.Errorf("%+v", got)
	}
	if got := do(&other, load); got.Record != aRecord(1) {
		t.Errorf("%+v", got)
	}
	// A registrar takes its own last store for known.
	if got := do(&one, vote.RegisterCall{Store: true, Old: aRecord(1), New: aRecord(2)}); got != (vote.RegisterResult{}) {
		t.Errorf("%+v", got)
	}
	if got := do(&other, vote.RegisterCall{Store: true, Old: aRecord(1), New: aRecord(3)}); !got.Changed {
		t.Errorf("%+v", got)
	}
	down := errors.New("down\nfor long")
	m.Fail(down)
	for _, call := range []vote.RegisterCall{load, {Store: true, Old: aRecord(2), New: aRecord(3)}} {
		if got := do(&other, call); got.Failed != "down, for long" {
			t.Errorf("%+v", got)
		}
	}
	m.Fail(nil)
	if got := do(&other, vote.RegisterCall{Store: true, Old: aRecord(2), New: aRecord(3)}); got != (vote.RegisterResult{}) {
		t.Errorf("%+v", got)
	}
}

// Content that isn't a record fails the call, with the codec's error on a single line.
func TestARegistrarRefusesWhatIsNoRecord(t *testing.T) {
	m := new(register.Memory)
	content := []byte(`{"lockmesh_register":2}`)
	_, version, _ := m.Load(t.Context()) // a register in memory can be read
	if err := m.Store(t.Context(), content, version); err != nil {
		t.Fatal(err)
	}
	_, err := record.Decode(content)
	r := registrar{register: m}
	for _, call := range []vote.RegisterCall{{}, {Store: true, New: aRecord(1)}} {
		if got := r.do(t.Context(), &call); err == nil || got != (vote.RegisterResult{Failed: err.Error()}) {
			t.Errorf("%+v, want %v", got, err)
		}
	}
	if data, _, _ := m.Load(t.Context()); string(data) != string(content) {
		t.Errorf("the register has %s", data)
	}
}
