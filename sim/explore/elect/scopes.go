package elect

// Scope is a space worth exploring.
type Scope struct {
	Name    string
	Options Options
}

// Scopes returns small scopes of each kind, which the tests exhaust, and then wider scopes.
//
// The elections of both versions at once, with all nodes learning all decisions at any time, make a
// space too large for more than one proposer. So some scopes cover the first election alone, and
// have the voters continue this election for as long as they can: no node learns the decision.
func Scopes() (small, wide []Scope) {
	a, b, c, none := []string{"a"}, []string{"b"}, []string{"c"}, []string{}
	small = []Scope{
		{"three become two", Options{Propose: []string{"a:ab"}, Conclude: a}},
		{"three become four", Options{Propose: []string{"a:abcd"}, Conclude: a}},
		{"three become two, the proposer may crash", Options{Propose: []string{"a:ab"}, Conclude: a, Crashes: 1, Crash: a}},
		{"three become two, the next voter's turn", Options{Propose: []string{"a:ab"}, Conclude: b, Idles: 1, Idle: b}},
		{"three become two, a connection breaks", Options{Propose: []string{"a:ab"}, Conclude: a, Cuts: 1}},
		{"three become two, a disk fails", Options{Propose: []string{"a:ab"}, Conclude: a, Failures: 1}},
		{"one election, two proposers", Options{Propose: []string{"a:ab", "b:abcd"}, Conclude: none, Mute: true}},
		{"one election, a proposer's two incarnations", Options{Propose: []string{"a:ab", "a:abcd"}, Conclude: none, Mute: true, Crashes: 1, Crash: a}},
		{"one election, a proposer's two incarnations, the later one smaller", Options{
			Propose: []string{"a:ab", "a:abcd"}, Conclude: none, Mute: true, Crashes: 1, Crash: a, Descend: true,
		}},
		{"a joint electorate, and both ends of it", Options{Propose: []string{"a:ad"}, Begun: true, Conclude: []string{"a:bd", "b:c"}, Waits: 1, Attempts: 1}},
		{"one election, two proposers and a crash", Options{Propose: []string{"a:ab", "b:ac"}, Conclude: none, Mute: true, Crashes: 1, Crash: c}},
	}
	wide = []Scope{
		{"three become two, two may end it", Options{Propose: []string{"a:ab"}, Conclude: []string{"a", "b"}}},
		{"three become two, all may crash", Options{Propose: []string{"a:ab"}, Conclude: a, Crashes: 1}},
		{"three become four, the newcomer may crash", Options{Propose: []string{"a:abcd"}, Conclude: a, Crashes: 1, Crash: []string{"d"}}},
		{"three become four, the proposer may crash", Options{Propose: []string{"a:abcd"}, Conclude: a, Crashes: 1, Crash: a}},
		{"three become four, a disk fails", Options{Propose: []string{"a:abcd"}, Conclude: a, Failures: 1}},
		{"three become two, two proposers", Options{Propose: []string{"a:ab", "b:ab"}, Conclude: a}},
		{"one election, two proposers, all may crash", Options{Propose: []string{"a:ab", "b:abcd"}, Conclude: none, Mute: true, Crashes: 1}},
		{"one election, a proposer's three incarnations", Options{Propose: []string{"a:ab", "a:abcd", "a:ac"}, Conclude: none, Mute: true, Crashes: 2, Crash: a}},
		{"one election, a ballot is given up", Options{Propose: []string{"a:ab", "a:abcd", "b:ac"}, Conclude: none, Mute: true, Idles: 2, Idle: a}},
		{"three become two, two crashes", Options{Propose: []string{"a:ab"}, Conclude: a, Crashes: 2, Crash: []string{"a", "b"}}},
		{"one election, three proposers", Options{Propose: []string{"a:ab", "b:abcd", "c:bc"}, Conclude: none, Mute: true}},
		{"a joint electorate, both ends and a crash", Options{Propose: []string{"a:ad"}, Begun: true, Conclude: []string{"a:bd", "b:c"}, Waits: 1, Attempts: 2, Crashes: 1, Crash: b}},
		{"three become two or four", Options{Propose: []string{"a:ab", "b:abcd"}, Conclude: a}},
	}
	return small, wide
}
