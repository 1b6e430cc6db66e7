package record

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
		got, err := Decode(Encode(&r))
		if err != nil || got != r {
			t.Errorf("%+v, %v, want %+v", got, err, r)
		}
	}
	if got, err := Decode(nil); err != nil || !got.IsZero() {
		t.Errorf("%+v, %v of a register without a record", got, err)
	}
	long := aRecord(1<<63 - 1)
	long.Mesh, long.Writer.Name = strings.Repeat("\x00", 128), vote.NodeID(strings.Repeat("\x00", vote.MaxNameLen))
	if n := len(Encode(&long)); n > register.MaxRecord {
		t.Errorf("a record has %d bytes", n)
	}
}

// Each row changes a single field.
func TestWhatIsNoRecordIsAnError(t *testing.T) {
	r := aRecord(5)
	good := string(Encode(&r))
	for _, change := range [][3]string{
		{good[20:], "", "unexpected end"},
		{`"lockmesh_register":1`, `"other":1`, "no format"},
		{`"lockmesh_register":1`, `"lockmesh_register":2`, "has format 2, of a later version of lockmesh; this version knows format 1: update lockmesh"},
		{`"lockmesh_register":1,"mesh":"`, `"lockmesh_register":2,"mesh":{},"other":"`, "has format 2"},
		{`"lockmesh_register":1`, `"lockmesh_register":"1"`, "cannot unmarshal"},
		{`"lockmesh_register":1`, `"lockmesh_register":-1`, "no format"},
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
		got, err := Decode([]byte(bad))
		fault, is := errors.AsType[*Error](err)
		if !is || !strings.Contains(err.Error(), change[2]) || len(err.Error()) > 1000 {
			t.Errorf("%s: %+v, %v, want %q", bad, got, err, change[2])
		} else if fault.Reason == "" || fault.Advice == "" || strings.Contains(fault.Reason, fault.Advice) {
			t.Errorf("%s: the reason is %q, the advice %q", bad, fault.Reason, fault.Advice)
		}
	}
}

func FuzzDecode(f *testing.F) {
	r := aRecord(5)
	f.Add(Encode(&r))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Decode(data)
		if _, is := errors.AsType[*Error](err); is || err == nil && got.IsZero() && len(data) == 0 {
			return
		}
		if err != nil || got.IsZero() {
			t.Fatalf("%q is %+v, with the error %v", data, got, err)
		}
		again, err := Decode(Encode(&got))
		if err != nil || again != got {
			t.Errorf("%+v is %+v after another turn, %v", got, again, err)
		}
	})
}
