package transport

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func offerOf(name string) offer {
	c := config(name, nil)
	return offer{self: c.Self, low: OldestVersion, high: WireVersion, terms: c.Terms.normal(), rhoPerMille: vote.RhoPerMille}
}

// largest is as long as a hello may be.
func largest() hello {
	long := func(i int) vote.NodeID {
		return vote.NodeID(fmt.Sprintf("%0*d", vote.MaxNameLen, i))
	}
	h := hello{role: roleProbe, want: long(1), account: vote.Account{
		Standing: vote.StandingLeaving, Counted: math.MaxInt64, Up: math.MaxInt64, Addr: strings.Repeat("h", maxAddr), LongestTTL: math.MaxInt64,
	}, offer: offer{
		self: vote.SessionID{Node: long(2), Incarnation: math.MaxUint64}, low: 255, high: 255, rhoPerMille: 1000,
		terms: Terms{Mesh: strings.Repeat("m", maxMeshLen), MaxTTL: math.MaxInt64, Dynamic: true, Converting: true, Birth: vote.Birth{Expect: vote.MaxVoters, MinVoters: vote.MaxVoters}},
	}}
	for i := range vote.MaxVoters {
		h.terms.Voters = append(h.terms.Voters, long(i))
	}
	return h
}

func TestTheHandshakeSurvivesTheWire(t *testing.T) {
	for name, h := range map[string]hello{
		"usual":   {offer: offerOf("a"), role: roleStream, want: "b"},
		"largest": largest(),
	} {
		t.Run(name, func(t *testing.T) {
			b := appendHello(nil, &h)
			if len(b) >= maxHandshake {
				t.Fatalf("%d bytes don't fit", len(b))
			}
			got, err := decodeHello(b)
			if err != nil || !reflect.DeepEqual(got, h) {
				t.Fatalf("got %+v, error %v", got, err)
			}
			w := welcome{offer: h.offer, account: h.account, version: 7}
			yes, no, err := decodeAnswer(appendWelcome(nil, &w))
			if err != nil || no != nil || !reflect.DeepEqual(*yes, w) {
				t.Fatalf("got %+v, %v, error %v", yes, no, err)
			}
		})
	}
	short := refusal{self: vote.SessionID{Node: "b", Incarnation: 5}, reason: vote.ReasonTerms, text: "because"}
	long := short
	h := largest()
	long.terms, long.account = h.terms.common(), h.account
	long.terms.Birth = vote.Birth{}
	counted := long // of a mesh born by count, without a list of voters
	counted.terms.Voters, counted.terms.Birth = nil, vote.Birth{Expect: 5, MinVoters: 3, Register: true}
	for _, r := range []refusal{short, long, counted} {
		b := appendRefusal(nil, &r)
		if len(b) >= maxHandshake {
			t.Fatalf("%d bytes don't fit", len(b))
		}
		yes, no, err := decodeAnswer(b)
		if err != nil || yes != nil || !reflect.DeepEqual(*no, r) {
			t.Fatalf("got %v, %+v, error %v", yes, no, err)
		}
	}
}

// Later fields are at the end, so that earlier versions can read the fields before, and this
// version reads messages without the later fields.
func TestAnAccountIsNotNeeded(t *testing.T) {
	h, err := decodeHello(pack(t, helloWords()...))
	if err != nil || h.account != (vote.Account{}) {
		t.Fatalf("got %+v, error %v", h.account, err)
	}
	h, err = decodeHello(pack(t, append(helloWords(), 200, 1, 2, "h:1")...))
	if want := (vote.Account{Counted: 1, Up: 2, Addr: "h:1"}); err != nil || h.account != want {
		t.Fatalf("of a later version's standing: got %+v, error %v", h.account, err)
	}
	for _, bad := range [][]any{{3, -1, 2, "h:1"}, {3, 1, "x", "h:1"}, {3, 1, 2, strings.Repeat("h", maxAddr+1)}} {
		if _, err := decodeHello(pack(t, append(helloWords(), bad...)...)); err == nil {
			t.Errorf("%v is taken for an account", bad)
		}
	}
	for _, bad := range [][]any{{3, 1, 2, "h:1", -1, 3}, {3, 1, 2, "h:1", 3, "x"}, {3, 1, 2, "h:1", vote.MaxVoters + 1, 3}, {3, 1, 2, "h:1", 3, 3, 1}, {3, 1, 2, "h:1", 3, 3, true, 1}, {3, 1, 2, "h:1", 3, 3, true, true, -1}} {
		if _, err := decodeHello(pack(t, append(helloWords(), bad...)...)); err == nil {
			t.Errorf("%v is taken for an account and a birth", bad)
		}
	}
	if _, _, err := decodeAnswer(pack(t, tagRefusal, "b", 1, int(vote.ReasonTerms), "no", int64(1), []any{}, true, 3, 1, 2, "h:1")); err == nil {
		t.Error("terms without voters are taken")
	}
}

func TestALongRefusalIsCutBetweenCharacters(t *testing.T) {
	for n := maxText - 3; n <= maxText+3; n++ {
		_, no, err := decodeAnswer(appendRefusal(nil, &refusal{text: strings.Repeat("x", n%4) + strings.Repeat("é", n)}))
		if err != nil {
			t.Fatal(err)
		}
		if len(no.text) > maxText || len(no.text) < maxText-8 || !utf8.ValidString(no.text) || !strings.HasSuffix(no.text, "...") {
			t.Fatalf("%d bytes, the end %q", len(no.text), no.text[len(no.text)-8:])
		}
	}
	if got := cut("short", maxText); got != "short" {
		t.Fatalf("got %q", got)
	}
}

// helloWords returns the fields of a hello as the library writes a hello, so that tests can spoil
// each field.
func helloWords() []any {
	return []any{tagHello, 1, 1, "a", uint64(7), "default", int64(time.Second), 5, []any{"a", "b"}, true, 1, "b"}
}

func TestLaterVersionsMayAddElements(t *testing.T) {
	words := append(helloWords(), []any{"something", []any{"nested"}}, 17)
	h, err := decodeHello(pack(t, words...))
	if err != nil || h.self.Node != "a" || h.want != "b" || len(h.terms.Voters) != 2 || !h.terms.Dynamic {
		t.Fatalf("got %+v, error %v", h, err)
	}
	h, err = decodeHello(pack(t, append(helloWords(), 3, 1, 2, "h:1", 5, 3, true, true, 7, []any{"later"}, "words")...))
	if err != nil || h.terms.Birth != (vote.Birth{Expect: 5, MinVoters: 3, Register: true}) || h.account.Addr != "h:1" || !h.terms.Converting || h.unaware || h.account.LongestTTL != 7 {
		t.Fatalf("got %+v, error %v", h, err)
	}
	h, err = decodeHello(pack(t, append(helloWords(), 3, 1, 2, "h:1", 5, 3, true, true)...)) // before the longest TTL was told
	if err != nil || !h.terms.Converting || h.unaware || h.account.LongestTTL != 0 {
		t.Fatalf("got %+v, error %v", h, err)
	}
	h, err = decodeHello(pack(t, append(helloWords(), 3, 1, 2, "h:1", 5, 3, true)...)) // before nodes were converted
	if err != nil || h.terms.Birth != (vote.Birth{Expect: 5, MinVoters: 3, Register: true}) || h.terms.Converting || !h.unaware {
		t.Fatalf("got %+v, error %v", h, err)
	}
	// a build with converting nodes, and the build before
	for _, later := range [][]any{{true, false, 7}, {true, false}, {true}} {
		words := append(append([]any{tagWelcome}, helloWords()[1:10]...), 1, 3, 1, 2, "h:1", 5, 3)
		if w, _, err := decodeAnswer(pack(t, append(words, later...)...)); err != nil || w.unaware != (len(later) < 2) {
			t.Fatalf("got %+v, error %v", w, err)
		}
	}
	// before there were registers
	h, err = decodeHello(pack(t, append(helloWords(), 3, 1, 2, "h:1", 5, 3)...))
	if err != nil || h.terms.Birth != (vote.Birth{Expect: 5, MinVoters: 3}) {
		t.Fatalf("got %+v, error %v", h, err)
	}
	_, no, err := decodeAnswer(pack(t, tagRefusal, "b", 1, 200, "for a reason of a later version", true))
	if err != nil || no.reason != vote.ReasonTerms {
		t.Fatalf("got %+v, error %v", no, err)
	}
}

func TestBadHandshakesAreErrors(t *testing.T) {
	spoil := func(i int, v any) []byte {
		w := helloWords()
		w[i] = v
		return pack(t, w...)
	}
	tooMany := make([]any, vote.MaxVoters+1)
	for i := range tooMany {
		tooMany[i] = fmt.Sprintf("%03d", i)
	}
	long := strings.Repeat("n", 129)
	tests := []struct {
		name  string
		frame []byte
	}{
		{"nothing", nil},
		{"no array", []byte{1}},
		{"a huge array", []byte{0xdd, 0xff, 0xff, 0xff, 0xff}},
		{"more words than may be added", append([]byte{0xdc, 0, maxHandshakeFields + 1}, make([]byte, 200)...)},
		{"an answer", spoil(0, tagWelcome)},
		{"too few words", pack(t, helloWords()[:11]...)},
		{"bytes behind it", append(pack(t, helloWords()...), 1)},
		{"version zero", spoil(1, 0)},
		{"versions the wrong way round", spoil(1, 2)},
		{"a version beyond a byte", spoil(2, 256)},
		{"no name", spoil(3, "")},
		{"a name too long", spoil(3, long)},
		{"a name that isn't UTF-8", spoil(3, "\xff")},
		{"no mesh", spoil(5, "")},
		{"a mesh too long", spoil(5, long)},
		{"a negative MaxTTL", spoil(6, -1)},
		{"rho beyond all", spoil(7, 1001)},
		{"too many voters", spoil(8, tooMany)},
		{"voters out of order", spoil(8, []any{"b", "a"})},
		{"a voter twice", spoil(8, []any{"a", "a"})},
		{"a voter without a name", spoil(8, []any{""})},
		{"voters that are no list", spoil(8, "a")},
		{"a kind of electorate that is neither true nor false", spoil(9, 1)},
		{"no role", spoil(10, 0)},
		{"a role nobody knows", spoil(10, 3)},
		{"a wanted name too long", spoil(11, long)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if h, err := decodeHello(tt.frame); !errors.Is(err, errMalformed) || !reflect.DeepEqual(h, hello{}) {
				t.Fatalf("error %v, hello %+v", err, h)
			}
		})
	}
	for name, frame := range map[string][]byte{
		"nothing":          nil,
		"a hello":          pack(t, helloWords()...),
		"a short welcome":  pack(t, tagWelcome, 1, 1),
		"a short refusal":  pack(t, tagRefusal, "b", 1),
		"a refusal's tail": append(pack(t, tagRefusal, "b", 1, 1, "x"), 0),
		"a text too long":  pack(t, tagRefusal, "b", 1, 1, strings.Repeat("x", maxText+1)),
	} {
		t.Run("as an answer, "+name, func(t *testing.T) {
			if yes, no, err := decodeAnswer(frame); !errors.Is(err, errMalformed) || yes != nil || no != nil {
				t.Fatalf("error %v, %v, %v", err, yes, no)
			}
		})
	}
}

func TestTermsAreComparedAndBothValuesNamed(t *testing.T) {
	tests := []struct {
		name   string
		change func(*offer)
		words  []string
	}{
		{"mesh name", func(o *offer) { o.terms.Mesh = "other" }, []string{`"default" at a`, `"other" at b`}},
		{"MaxTTL", func(o *offer) { o.terms.MaxTTL = 5 * time.Second }, []string{"10s at a", "5s at b"}},
		{"rho", func(o *offer) { o.rhoPerMille = 9 }, []string{"5 per mille at a", "9 per mille at b"}},
		{"the list of voters", func(o *offer) { o.terms.Voters = []vote.NodeID{"a", "b"} }, []string{"[a b c] at a", "[a b] at b"}},
		{"electorate", func(o *offer) { o.terms.Dynamic = true }, []string{"the electorate is fixed at a and is dynamic at b"}},
		{"Expect", func(o *offer) {
			o.terms.Birth, o.terms.Dynamic, o.terms.Voters = vote.Birth{Expect: 3, MinVoters: 3}, true, nil
		}, []string{"Expect is not set at a and 3 at b"}},
		{"wire version", func(o *offer) { o.low, o.high = 3, 4 }, []string{"1 to 2 at a", "3 to 4 at b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := offerOf("a"), offerOf("b")
			tt.change(&b)
			_, text := compare(&a, &b)
			for _, w := range append(tt.words, tt.name) {
				if !strings.Contains(text, w) {
					t.Fatalf("%q doesn't say %q", text, w)
				}
			}
		})
	}
}

// From wire version 2 on, the voters of a dynamic electorate decide the maximum TTL. A node with an
// electorate without a decided value offers version 1 only.
func TestTheMaxTTLMayDifferWhereTheVotersDecideIt(t *testing.T) {
	dynamic := func(o *offer) { o.terms.Dynamic = true }
	for _, tt := range []struct {
		name    string
		a, b    func(*offer)
		version uint8
		want    string
	}{
		{"both know no electorate", dynamic, dynamic, 2, ""},
		{"one knows a decided value", dynamic, func(o *offer) { dynamic(o); o.low = 2 }, 2, ""},
		{"one knows none decided", dynamic, func(o *offer) { dynamic(o); o.high = 1 }, 1, "MaxTTL is 10s at a and 5s at b"},
		{"a decided value and none decided", func(o *offer) { dynamic(o); o.low = 2 }, func(o *offer) { dynamic(o); o.high = 1 }, 1, "wire version is 2 at a and 1 at b"},
		{"fixed electorates", func(*offer) {}, func(*offer) {}, 2, "MaxTTL is 10s at a and 5s at b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := offerOf("a"), offerOf("b")
			tt.a(&a)
			tt.b(&b)
			b.terms.MaxTTL = 5 * time.Second
			if version, text := compare(&a, &b); version != tt.version || !strings.Contains(text, tt.want) || tt.want == "" && text != "" {
				t.Errorf("version %d, %q", version, text)
			}
		})
	}
}

func TestBirthsByCountAreCompared(t *testing.T) {
	for _, tt := range []struct {
		a, b vote.Birth
		want string
	}{
		{vote.Birth{Expect: 3, MinVoters: 3}, vote.Birth{Expect: 3, MinVoters: 3}, ""},
		{vote.Birth{Expect: 3, MinVoters: 3}, vote.Birth{Expect: 5, MinVoters: 3}, "Expect is 3 at a and 5 at b"},
		{vote.Birth{Expect: 5, MinVoters: 5}, vote.Birth{Expect: 5, MinVoters: 3}, "MinVoters is 5 at a and 3 at b"},
		{vote.Birth{Expect: 1, MinVoters: 1}, vote.Birth{Expect: 1, MinVoters: 1}, "Expect is 1 at a and at b, and a mesh of one process takes in no other"},
	} {
		a, b := offerOf("a"), offerOf("b")
		a.terms.Dynamic, a.terms.Voters, a.terms.Birth = true, nil, tt.a
		b.terms.Dynamic, b.terms.Voters, b.terms.Birth = true, nil, tt.b
		if _, text := compare(&a, &b); text != tt.want {
			t.Errorf("%q, want %q", text, tt.want)
		}
	}
}

func TestTheVotersOfADynamicElectorateAreItsFounders(t *testing.T) {
	const list = "[a b c] at a and [a b] at b"
	for _, tt := range []struct {
		a, b bool // has dynamic membership
		want string
	}{
		{false, false, "the list of voters is " + list},
		{true, true, "the list of founders is " + list},
		{true, false, "the electorate is dynamic at a and is fixed at b; the list of voters is " + list},
		{false, true, "the electorate is fixed at a and is dynamic at b; the list of voters is " + list},
	} {
		a, b := offerOf("a"), offerOf("b")
		a.terms.Dynamic, b.terms.Dynamic = tt.a, tt.b
		b.terms.Voters = []vote.NodeID{"a", "b"}
		if _, text := compare(&a, &b); text != tt.want {
			t.Errorf("%q, want %q", text, tt.want)
		}
		b.terms.Voters = a.terms.Voters
		if _, text := compare(&a, &b); (text == "") != (tt.a == tt.b) {
			t.Errorf("with one list: %q", text)
		}
	}
}

func TestTheNewestVersionThatBothKnowIsSpoken(t *testing.T) {
	tests := []struct{ aLow, aHigh, bLow, bHigh, want uint8 }{
		{1, 1, 1, 1, 1}, {1, 3, 1, 2, 2}, {2, 3, 1, 2, 2}, {1, 9, 4, 5, 5}, {1, 2, 3, 4, 0}, {3, 4, 1, 2, 0},
	}
	for _, tt := range tests {
		a, b := offerOf("a"), offerOf("b")
		a.low, a.high, b.low, b.high = tt.aLow, tt.aHigh, tt.bLow, tt.bHigh
		got, text := compare(&a, &b)
		if agreed := text == ""; agreed != (tt.want != 0) || agreed && got != tt.want {
			t.Errorf("%+v: version %d, text %q", tt, got, text)
		}
	}
}

func TestTheOrderOfVotersDoesntMatter(t *testing.T) {
	t1 := Terms{Voters: []vote.NodeID{"c", "a", "b", "a"}}
	if got := t1.normal().Voters; !slices.Equal(got, []vote.NodeID{"a", "b", "c"}) {
		t.Fatalf("got %v", got)
	}
	if t1.Voters[0] != "c" {
		t.Fatal("the caller's list was sorted")
	}
}

func FuzzHandshake(f *testing.F) {
	big := largest()
	f.Add(appendHello(nil, &big))
	f.Add(pack(f, helloWords()...))
	f.Add(appendWelcome(nil, &welcome{offer: offerOf("b"), version: 1}))
	f.Add(appendRefusal(nil, &refusal{text: "no"}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if h, err := decodeHello(frame); err == nil {
			h.unaware = false // this build writes all elements
			if again, err := decodeHello(appendHello(nil, &h)); err != nil || !reflect.DeepEqual(h, again) {
				t.Fatalf("%+v became %+v, error %v", h, again, err)
			}
		}
		yes, no, err := decodeAnswer(frame)
		if err == nil && (yes == nil) == (no == nil) {
			t.Fatalf("neither or both: %v, %v", yes, no)
		}
		if yes != nil {
			yes.unaware = false
			if again, _, err := decodeAnswer(appendWelcome(nil, yes)); err != nil || !reflect.DeepEqual(yes, again) {
				t.Fatalf("%+v became %+v, error %v", yes, again, err)
			}
		}
		if no != nil {
			if _, again, err := decodeAnswer(appendRefusal(nil, no)); err != nil || !reflect.DeepEqual(no, again) {
				t.Fatalf("%+v became %+v, error %v", no, again, err)
			}
		}
	})
}
