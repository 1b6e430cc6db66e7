package statedir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func mustEncode(t testing.TB, st *vote.DiskState) []byte {
	t.Helper()
	data, err := encode(st)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sealed returns a file with any body, and the right checksum.
func sealed(body string) []byte { return seal([]byte(body)) }

// All later versions must read a file of this version. If this test fails after a change of the
// words, or of Go, then existing files are refused.
func TestTheFormatStaysWhatItIs(t *testing.T) {
	const want = `lockmesh-state 1
{
 "mesh": "default",
 "name": "a<b>",
 "dir": 18446744073709551615,
 "writes": 2,
 "electorate": {
  "version": 1,
  "lineage": 7,
  "voters": [
   {
    "name": "ä",
    "dir": 12
   }
  ],
  "floor": 99
 },
 "promised": {
  "number": 0,
  "by": 0
 },
 "accepted": {
  "number": 0,
  "by": 0
 },
 "value": {
  "version": 0,
  "lineage": 0,
  "voters": null
 }
}
crc32c ec4876ac
`
	st := vote.DiskState{Mesh: "default", Name: "a<b>", Dir: 1<<64 - 1, Writes: 2,
		Electorate: vote.Electorate{Version: 1, Lineage: 7, Voters: []vote.Elector{{Name: "ä", Dir: 12}}, MinToken: 99}}
	if got := string(mustEncode(t, &st)); got != want {
		t.Errorf("writes\n%s\nwant\n%s", got, want)
	}
	got, err := decode("state", []byte(want))
	if err != nil || !reflect.DeepEqual(got, st) {
		t.Errorf("reads %+v, %v; want %+v", got, err, st)
	}
}

// A file from before electorates had a limit, in the midst of a change and with a founder's pledge,
// must be read: the file has no "most" and no "pledge_most". A file with both stays readable, too.
func TestFilesOfBeforeTheLimitAreRead(t *testing.T) {
	st := vote.DiskState{
		Mesh: "m", Name: "a", Dir: 1, Writes: 9,
		Electorate: vote.Electorate{Version: 2, Lineage: 7, Voters: []vote.Elector{{Name: "a", Dir: 1}}, Old: []vote.Elector{{Name: "b", Dir: 2}}},
		Promised:   vote.Ballot{Counter: 3, By: 4}, Accepted: vote.Ballot{Counter: 3, By: 4},
		Value:  vote.Electorate{Version: 3, Lineage: 7, Voters: []vote.Elector{{Name: "a", Dir: 1}}},
		Pledge: []vote.Elector{{Name: "a", Dir: 1}, {Name: "b", Dir: 2}},
	}
	limited := st
	limited.Electorate.Most, limited.Value.Most, limited.PledgeMaxVoters = 7, 5, 3
	const (
		electors = "[\n   {\n    \"name\": \"a\",\n    \"dir\": 1\n   }\n  ]"
		old      = "[\n   {\n    \"name\": \"b\",\n    \"dir\": 2\n   }\n  ]"
		pledge   = "[\n  {\n   \"name\": \"a\",\n   \"dir\": 1\n  },\n  {\n   \"name\": \"b\",\n   \"dir\": 2\n  }\n ]"
		attempt  = "{\n  \"number\": 3,\n  \"by\": 4\n }"
		body     = "lockmesh-state 1\n{\n \"mesh\": \"m\",\n \"name\": \"a\",\n \"dir\": 1,\n \"writes\": 9,\n" +
			" \"electorate\": {\n  \"version\": 2,\n  \"lineage\": 7,\n  \"voters\": " + electors + ",\n  \"old\": " + old + "%s\n },\n" +
			" \"promised\": " + attempt + ",\n \"accepted\": " + attempt + ",\n" +
			" \"value\": {\n  \"version\": 3,\n  \"lineage\": 7,\n  \"voters\": " + electors + "%s\n },\n \"pledge\": " + pledge + "%s\n}\n"
	)
	for _, c := range []struct {
		file string
		want vote.DiskState
	}{
		{fmt.Sprintf(body, "", "", "") + "crc32c 826572ca\n", st},
		{fmt.Sprintf(body, ",\n  \"most\": 7", ",\n  \"most\": 5", ",\n \"pledge_most\": 3") + "crc32c 85634c8a\n", limited},
	} {
		if got := string(mustEncode(t, &c.want)); got != c.file {
			t.Errorf("writes\n%s\nwant\n%s", got, c.file)
		}
		if got, err := decode("state", []byte(c.file)); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("reads %+v, %v; want %+v", got, err, c.want)
		}
	}
}

func TestTheLargestStateFits(t *testing.T) {
	var voters, others []vote.Elector
	for i := range vote.MaxVoters {
		name := vote.NodeID(fmt.Sprintf("%03d", i) + strings.Repeat("\x01", vote.MaxNameLen-3))
		voters = append(voters, vote.Elector{Name: name, Dir: 1<<64 - 1})
		others = append(others, vote.Elector{Name: "x" + name[1:], Dir: 1<<64 - 1})
	}
	st := sample(1<<64 - 1)
	most := vote.Ballot{Counter: 1<<64 - 1, By: 1<<64 - 1}
	// More than is possible: both halves of both electorates are full, twice the number of possible
	// voters.
	st.Electorate = vote.Electorate{Version: 1<<64 - 1, Lineage: 1<<64 - 1, Voters: voters, Old: others, MinToken: vote.MaxToken}
	st.Mesh, st.Name, st.Promised, st.Accepted, st.Value, st.Pledge = string(voters[0].Name), voters[0].Name, most, most, st.Electorate, voters
	if n := len(mustEncode(t, st)); n > maxSize || n < maxSize/4 {
		t.Errorf("it has %d bytes, the limit is %d: it should be above, and not by much", n, maxSize)
	}
}

func TestWhatCannotBeTrustedIsRefused(t *testing.T) {
	good := mustEncode(t, sample(1))
	body := good[:len(good)-len(lastLine(good))]
	text := string(body[len("lockmesh-state 1\n"):])
	change := func(from, to string) []byte {
		if !strings.Contains(string(body), from) {
			t.Fatalf("no %q to change", from)
		}
		return sealed(strings.Replace(string(body), from, to, 1))
	}
	flipped := bytes.Replace(good, []byte(`"number": 3`), []byte(`"number": 2`), 1)
	for name, c := range map[string]struct {
		data   []byte
		reason error
		texts  []string
	}{
		"empty":               {nil, ErrCorrupt, []string{"it is empty", `expected "lockmesh-state 1"`}},
		"zeros":               {make([]byte, 4096), ErrCorrupt, []string{`it begins with "\x00`, `expected "lockmesh-state 1"`}},
		"another file":        {[]byte("[Unit]\nDescription=x\n"), ErrCorrupt, []string{`it begins with "[Unit]"`}},
		"one long line":       {bytes.Repeat([]byte("x"), maxSize), ErrCorrupt, []string{`it begins with "xxxx`}},
		"too large":           {append(bytes.Clone(good), make([]byte, maxSize)...), ErrCorrupt, []string{"more than 524288 bytes"}},
		"only a first line":   {[]byte("lockmesh-state 1\n"), ErrCorrupt, []string{`it ends with "lockmesh-state 1\n"`, "cut short"}},
		"cut in the middle":   {good[:len(good)/2], ErrCorrupt, []string{"it ends with", "cut short"}},
		"cut at the sum":      {body, ErrCorrupt, []string{`it ends with "}\n"`, `expected a line "crc32c "`}},
		"cut in the sum":      {good[:len(good)-4], ErrCorrupt, []string{"it ends with", "cut short"}},
		"without a line end":  {good[:len(good)-1], ErrCorrupt, []string{"it ends with"}},
		"a sum with a sign":   {append(bytes.Clone(body), "crc32c +1234567\n"...), ErrCorrupt, []string{"it ends with"}},
		"a sum in capitals":   {append(bytes.Clone(body), "crc32c ABCDEF01\n"...), ErrCorrupt, []string{"it ends with"}},
		"bytes behind it":     {append(bytes.Clone(good), "x"...), ErrCorrupt, []string{`it ends with "x"`, "something was added"}},
		"a line behind it":    {append(bytes.Clone(good), "\n"...), ErrCorrupt, []string{`it ends with "\n"`}},
		"twice":               {append(bytes.Clone(good), good...), ErrCorrupt, []string{"its checksum is", "expected"}},
		"one digit changed":   {flipped, ErrCorrupt, []string{"its checksum is", "a part of it has changed"}},
		"line ends of DOS":    {bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")), ErrCorrupt, []string{"it ends with"}},
		"format flipped":      {bytes.Replace(good, []byte("state 1"), []byte("state 3"), 1), ErrCorrupt, []string{"its checksum is"}},
		"a later format":      {sealed("lockmesh-state 2\nwhatever comes\n"), ErrFormat, []string{`its format is "2"; this version knows 1`}},
		"no format":           {sealed("lockmesh-state \n" + text), ErrFormat, []string{`its format is ""`}},
		"no JSON":             {sealed("lockmesh-state 1\n"), ErrCorrupt, []string{"what it says can't be read"}},
		"broken JSON":         {sealed("lockmesh-state 1\n{\"mesh\":\n"), ErrCorrupt, []string{"what it says can't be read"}},
		"deep JSON":           {sealed("lockmesh-state 1\n" + strings.Repeat("[", 1<<18) + "\n"), ErrCorrupt, []string{"what it says can't be read"}},
		"two values":          {sealed("lockmesh-state 1\n" + text + text), ErrCorrupt, []string{"what it says can't be read"}},
		"another type":        {change(`"writes": 1`, `"writes": "1"`), ErrCorrupt, []string{"what it says can't be read"}},
		"a negative number":   {change(`"writes": 1`, `"writes": -1`), ErrCorrupt, []string{"what it says can't be read"}},
		"a number too large":  {change(`"writes": 1`, `"writes": 18446744073709551616`), ErrCorrupt, []string{"what it says can't be read"}},
		"null":                {sealed("lockmesh-state 1\nnull\n"), ErrFormat, []string{"would write the same state differently"}},
		"nothing in it":       {sealed("lockmesh-state 1\n{}\n"), ErrFormat, []string{"would write the same state differently"}},
		"a field we lack":     {change(` "writes"`, ` "debts": 5,`+"\n"+` "writes"`), ErrFormat, []string{"another version wrote it"}},
		"a field it lacks":    {change(` "writes": 1,`+"\n", ""), ErrFormat, []string{"another version wrote it"}},
		"a field twice":       {change(` "writes": 1`, ` "writes": 2,`+"\n"+` "writes": 1`), ErrFormat, []string{"by hand"}},
		"a field in capitals": {change(`"writes"`, `"Writes"`), ErrFormat, []string{"by hand"}},
		"other spaces":        {change(`"writes": 1`, `"writes":1`), ErrFormat, []string{"by hand"}},
		"no UTF-8":            {change(`"mesh": "default"`, `"mesh": "`+"\xff"+`"`), ErrFormat, []string{"by hand"}},
		"no identity":         {change(`"dir": 11`, `"dir": 0`), ErrCorrupt, []string{"makes no sense: the directory has no identity"}},
	} {
		t.Run(name, func(t *testing.T) {
			advice := adviceCorrupt
			if c.reason == ErrFormat {
				advice = adviceFormat
			}
			m := newMemory()
			d := mustOpen(t, m)
			m.seen[d.in(stateFile)] = &inode{seen: c.data}
			_, found, err := d.Load("default", "a")
			if found {
				t.Error("found")
			}
			wantError(t, name, err, c.reason, append(c.texts, d.in(stateFile), advice)...)
			if n := len(err.Error()); n > 1000 {
				t.Errorf("the error has %d bytes: who will read it?", n)
			}
			if got := m.seen[d.in(stateFile)].seen; !bytes.Equal(got, c.data) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestEveryCutAndEveryFlippedBitIsNoticed(t *testing.T) {
	good := mustEncode(t, sample(1))
	for n := range good {
		if _, err := decode("state", good[:n]); err == nil {
			t.Errorf("cut to %d bytes it is taken", n)
		}
	}
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if _, err := decode("state", bad); err == nil {
				t.Errorf("with bit %d of byte %d flipped it is taken", bit, i)
			}
		}
	}
}

func TestAnotherNodesStateIsRefused(t *testing.T) {
	for _, c := range []struct {
		mesh string
		name vote.NodeID
		text string
	}{
		{"test", "a", `it is of mesh "default", node "a"; expected mesh "test"`},
		{"default", "b", `it is of node "a"; expected node "b"`},
		{"", "", `expected mesh ""`},
	} {
		_, d := started(t, sample(1))
		_, found, err := d.Load(c.mesh, c.name)
		wantError(t, c.text, err, ErrForeign, c.text, adviceForeign, d.in(stateFile))
		if found {
			t.Errorf("%s: found", c.text)
		}
	}
}

// All bytes are either refused with an error of this package, or are exactly the encoding of a
// valid state.
func FuzzLoad(f *testing.F) {
	for _, st := range []*vote.DiskState{fresh(), sample(1)} {
		good := mustEncode(f, st)
		f.Add(good)
		f.Add(good[:len(good)/2])
		f.Add(good[:len(good)-len(lastLine(good))])
	}
	f.Add([]byte{})
	f.Add([]byte("lockmesh-state 2\n\n"))
	f.Add([]byte("lockmesh-state 1\n{}\ncrc32c 826572ca\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The checksum keeps out most invented bytes.
		for _, data := range [][]byte{data, seal(bytes.Clone(data))} {
			st, err := decode("state", data)
			if err != nil {
				if _, ok := err.(*Error); !ok {
					t.Errorf("fails with %v (%T)", err, err)
				}
				continue
			}
			if problem := nonsense(&st); problem != "" {
				t.Errorf("takes a state of which %s", problem)
			}
			again, err := encode(&st)
			if err != nil || !bytes.Equal(again, data) {
				t.Errorf("takes\n%q\nand writes\n%q, %v", data, again, err)
			}
			if back, err := decode("state", again); err != nil || !reflect.DeepEqual(back, st) {
				t.Errorf("takes %+v, and reads back %+v, %v", st, back, err)
			}
		}
		_, body, _ := bytes.Cut(data, []byte("\n"))
		body = bytes.TrimSuffix(body, lastLine(body))
		var st vote.DiskState
		if json.Unmarshal(body, &st) != nil || nonsense(&st) != "" {
			return
		}
		if back, err := decode("state", mustEncode(t, &st)); err != nil || !reflect.DeepEqual(normal(back), normal(st)) {
			t.Errorf("writes %+v, and reads back %+v, %v", st, back, err)
		}
	})
}

// normal returns a state with nil in place of empty lists, which are the same in a file where a
// list may be left out.
func normal(st vote.DiskState) vote.DiskState {
	for _, list := range []*[]vote.Elector{&st.Electorate.Old, &st.Value.Old, &st.Pledge} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	return st
}
