package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/register"
)

func aRecord(renewal uint64) vote.RegisterRecord {
	return vote.RegisterRecord{
		Mesh: "ordérs \"1\"", Lineage: 1<<63 | 7, Term: 90 * time.Second, MaxTTL: 10 * time.Second, Renewal: renewal, Writer: vote.Elector{Name: "a", Dir: 1<<63 | 9},
	}
}

func TestARecordIsDecodedAsItWasEncoded(t *testing.T) {
	for _, r := range []vote.RegisterRecord{aRecord(1), aRecord(1 << 62)} {
		got, err := decodeRegister(encodeRegister(&r))
		if err != nil || got != r {
			t.Errorf("%+v, %v, want %+v", got, err, r)
		}
	}
	long := aRecord(1<<63 - 1)
	long.Mesh, long.Writer.Name = strings.Repeat("\x00", 128), vote.NodeID(strings.Repeat("\x00", vote.MaxNameLen))
	if n := len(encodeRegister(&long)); n > register.MaxRecord {
		t.Errorf("a record has %d bytes", n)
	}
}

// One changed field after the other.
func TestWhatIsNoRecordIsAnError(t *testing.T) {
	r := aRecord(5)
	good := string(encodeRegister(&r))
	for _, change := range [][3]string{
		{good, "", "unexpected end"},
		{`"lockmesh_register":1`, `"other":1`, "no format"},
		{`"lockmesh_register":1`, `"lockmesh_register":2`, "format 2, of a later version"},
		{`"lineage":"8000000000000007"`, `"lineage":"0"`, "the lineage is"},
		{`"lineage":"8000000000000007"`, `"lineage":"x"`, "the lineage is"},
		{`"lineage":"8000000000000007"`, `"lineage":7`, "cannot unmarshal"},
		{`"term":"1m30s"`, `"term":"-1s"`, "the term is"},
		{`"term":"1m30s"`, `"term":"0s"`, "the term is"},
		{`"term":"1m30s"`, `"term":"2000000h"`, "the term is"},
		{`"term":"1m30s"`, `"term":"soon"`, "the term is"},
		{`"max_ttl":"10s"`, `"max_ttl":"0s"`, "the max_ttl is"},
		{`"max_ttl":"10s"`, `"other":"10s"`, "the max_ttl is"},
		{`"renewal":5`, `"renewal":0`, "renewal"},
		{`"renewal":5`, `"renewal":9223372036854775808`, "renewal"},
		{`"renewal":5`, `"renewal":-1`, "cannot unmarshal"},
		{`"writer":"a"`, `"writer":"` + strings.Repeat("a", 129) + `"`, "writer"},
		{`"writer_identity":"8000000000000009"`, `"writer_identity":""`, "identity"},
		{`"mesh":"ord`, `"mesh":"` + strings.Repeat("a", register.MaxRecord), "bytes"},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatalf("%s isn't in %s", change[0], good)
		}
		if got, err := decodeRegister([]byte(bad)); err == nil || !strings.Contains(err.Error(), change[2]) || len(err.Error()) > 1000 {
			t.Errorf("%s: %+v, %v, want %q", bad, got, err, change[2])
		}
	}
}

func FuzzDecodeRegister(f *testing.F) {
	r := aRecord(5)
	f.Add(encodeRegister(&r))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeRegister(data)
		if err != nil {
			return
		}
		again, err := decodeRegister(encodeRegister(&got))
		if err != nil || again != got {
			t.Errorf("%+v is %+v after another turn, %v", got, again, err)
		}
	})
}

// A process stores only in place of what it has been told.
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
	// What it has stored itself it takes for known.
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
