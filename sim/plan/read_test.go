package plan

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// least is a scenario with only the required fields.
const least = `{"voters": 3, "link": {"median": "1ms"}}`

func mustRead(t *testing.T, text string, overrides ...string) *Scenario {
	t.Helper()
	s, err := Read(strings.NewReader(text), overrides...)
	if err != nil {
		t.Fatalf("%s %q: %v", text, overrides, err)
	}
	return s
}

func TestAScenarioThatSaysLittleHasDefaults(t *testing.T) {
	s := mustRead(t, least)
	want := &Scenario{
		Voters: 3, LockOn: "all",
		MaxTTL: Duration(10 * time.Second), TTL: Duration(10 * time.Second),
		Link: Link{
			Median: Duration(time.Millisecond), P99: Duration(2 * time.Millisecond), Least: Duration(500 * time.Microsecond),
			Outage: Outage{Last: Duration(time.Second)},
		},
		Clocks:     Clocks{PPM: 50, Wall: Duration(10 * time.Millisecond)},
		Crashes:    Crashes{Return: Duration(10 * time.Second), Replaced: Duration(4 * time.Hour)},
		Partitions: Partitions{Last: Duration(30 * time.Second), Shape: "node"},
		Pauses:     Pauses{Last: Duration(200 * time.Millisecond)},
		Load:       Load{Clients: 1, Keys: 10, Hold: Duration(time.Second), Think: Duration(20 * time.Second)},
		Probe:      Probe{Every: Duration(time.Second), Within: Duration(time.Second)},
		Posts:      Posts{Count: 3, Hold: Duration(30 * time.Second)},
		Simulate:   Simulate{For: Duration(24 * time.Hour), Worlds: 8, Seed: 1},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("it is\n%+v, want\n%+v", s, want)
	}
}

func TestOverridesStandAboveTheFile(t *testing.T) {
	const regions = `{"groups": [{"name": "a", "voters": 2}, {"name": "b", "voters": 1}], "ttl": "2s",
		"links": [{"between": ["a", "b"], "median": "9ms"}], "link": {"median": "1ms"}}`
	for _, row := range []struct {
		set string
		get func(*Scenario) any
		has any
	}{
		{"ttl=5s", func(s *Scenario) any { return s.TTL }, Duration(5 * time.Second)},
		{`ttl="5s"`, func(s *Scenario) any { return s.TTL }, Duration(5 * time.Second)},
		{"groups.b.voters=3", func(s *Scenario) any { return s.Groups[1].Voters }, 3},
		{"groups.0.voters=7", func(s *Scenario) any { return s.Groups[0].Voters }, 7},
		{"links.0.loss=0.25", func(s *Scenario) any { return s.Links[0].Loss }, 0.25},
		{"crashes.every=1h", func(s *Scenario) any { return s.Crashes.Every }, Duration(time.Hour)},
		{"comment=a=b c", func(s *Scenario) any { return s.Comment }, "a=b c"},
		{"simulate.seed=18446744073709551615", func(s *Scenario) any { return s.Simulate.Seed }, uint64(1<<64 - 1)},
		{`links=[{"between": ["b", "a"], "median": "3ms"}]`, func(s *Scenario) any { return s.Links[0].P99 }, Duration(6 * time.Millisecond)},
	} {
		if has := row.get(mustRead(t, regions, row.set)); has != row.has {
			t.Errorf("with %s it is %v, want %v", row.set, has, row.has)
		}
	}
	if s := mustRead(t, least, "ttl=3s", "ttl=4s"); s.TTL != Duration(4*time.Second) {
		t.Errorf("of two for one field the last doesn't count: %v", s.TTL)
	}
	for _, row := range []struct{ set, want string }{
		{"ttl", "isn't field=value"},
		{"=5", "isn't field=value"},
		{"ttl.x=5", "ttl has no fields"},
		{"groups.c.voters=1", `no element "c"`},
		{"groups.2.voters=1", `no element "2"`},
		{"groups.a.name.x=1", "groups.a.name has no fields"},
		{"nodes=5", "nodes: there is no such field"},
	} {
		if _, err := Read(strings.NewReader(regions), row.set); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want something with %q", row.set, err, row.want)
		}
	}
}

func TestBadScenariosAreRefusedByField(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{``, "it ends too soon"},
		{`null`, "it is null"},
		{`[1]`, "it is a JSON array"},
		{"{\n\"ttl\" 5}", "line 2:"},
		{`{"ttl": "5s"`, "it ends too soon"},
		{least + `{}`, "more after the closing brace"},
		{`{"comment": "` + strings.Repeat("x", fileMost) + `"}`, "longer than"},
		{`{"votres": 3}`, "votres: there is no such field; there are comment, voters"},
		{`{"link": {"mediann": "1ms"}}`, "link.mediann: there is no such field; there are median"},
		{`{"links": [{"between": ["a", "b"], "ms": 1}]}`, "links[0].ms: there is no such field; there are between, median"},
		{`{"voters": "3"}`, `voters: "3": it must be a number`},
		{`{"voters": 3.5}`, "voters: 3.5: it must be a whole number, 0 to 25"},
		{`{"voters": 26}`, "voters: 26: it must be a whole number, 0 to 25"},
		{`{"voters": -1}`, "voters: -1"},
		{`{"voters": 0, "link": {"median": "1ms"}}`, "voters: 0 in all: there must be 1 to 25"},
		{`{"voters": 1e99}`, "voters: 1e99"},
		{`{"ttl": 5}`, `ttl: 5: it must be a duration in quotes`},
		{`{"ttl": "5"}`, `ttl: "5": it must be a duration like`},
		{`{"ttl": "100ms"}`, "ttl: 100ms: it must be 200ms to 24h"},
		{`{"ttl": "11s", "voters": 1}`, "ttl: 11s: it must not be above max_ttl, 10s"},
		{`{"max_ttl": "-1s"}`, "max_ttl: -1s: it must be 200ms to 24h"},
		{`{"link": 5}`, "link: 5: it must be an object"},
		{`{"links": {}}`, "links: {}: it must be a list"},
		{`{"groups": [7]}`, "groups[0]: 7: it must be an object"},
		{`{"groups": [{"voters": 3}]}`, "groups[0].name: it isn't given"},
		{`{"groups": [{"name": "A b", "voters": 3}]}`, `groups[0].name: "A b": it must be`},
		{`{"groups": [{"name": "a", "voters": 3}, {"name": "a"}]}`, `groups[1].name: "a": another group has it`},
		{`{"groups": [{"name": "a", "voters": 3}], "voters": 1}`, "voters: nodes are given by groups"},
		{`{"groups": [{"name": "a", "voters": 25}, {"name": "b", "voters": 1}]}`, "voters: 26 in all"},
		{`{"voters": 3, "others": 48}`, "others: 51 nodes in all: there may be 50"},
		{`{"voters": 3, "lock_on": "others", "link": {"median": "1ms"}}`, "lock_on: \"others\": there are no others"},
		{`{"voters": 3, "lock_on": "some"}`, `lock_on: "some": it must be one of all, others, voters`},
		{`{"voters": 3}`, "link.median: it isn't given: give the one-way delay"},
		{`{"voters": 3, "link": {"p99": "3ms"}}`, "link.median: it isn't given, but p99"},
		{`{"voters": 3, "link": {"median": "0s"}}`, "link.median: 0s: it must be 1us to 1s"},
		{`{"voters": 3, "link": {"median": "2ms", "p99": "1ms"}}`, "link.p99: 1ms: it must not be below the median, 2ms"},
		{`{"voters": 3, "link": {"median": "2ms", "least": "3ms"}}`, "link.least: 3ms: it must not be above the median, 2ms"},
		{`{"voters": 3, "link": {"median": "2ms", "loss": 0.6}}`, "link.loss: 0.6: it must be a number, 0 to 0.5"},
		{`{"voters": 3, "link": {"median": "2ms", "outage": {"every": "1ms"}}}`, "link.outage.every: 1ms: it must be 100ms to 87600h, or 0s for never"},
		{`{"groups": [{"name": "a", "voters": 1}, {"name": "b", "voters": 1}], "links": [{"between": ["a", "a"], "median": "1ms"}]}`,
			`links has nothing between "a" and "b"`},
		{`{"voters": 1, "links": [{"between": ["a", "b"], "median": "1ms"}]}`, `links[0].between: "a": no group is called so`},
		{`{"voters": 1, "links": [{"between": ["a"], "median": "1ms"}]}`, `links[0].between: ["a"]: it must be two names`},
		{`{"voters": 1, "links": [{"between": [1, 2], "median": "1ms"}]}`, `links[0].between: [1,2]: it must be a list of strings`},
		{`{"voters": 1, "links": [{"median": "1ms"}]}`, `links[0].between: it isn't given`},
		{`{"groups": [{"name": "a", "voters": 1}], "links": [{"between": ["a", "a"]}]}`, `links[0].median: it isn't given`},
		{`{"groups": [{"name": "a", "voters": 1}, {"name": "b", "voters": 1}], "links": [{"between": ["a", "b"], "median": "1ms"},
			{"between": ["b", "a"], "median": "1ms"}]}`, `links[1].between: ["b" "a"]: links[0] has the same`},
		{`{"voters": 3, "partitions": {"every": "1h", "shape": "group"}}`, `partitions.shape: "group": there must be two groups`},
		{`{"voters": 3, "partitions": {"shape": 1}}`, `partitions.shape: 1: it must be a string`},
		{`{"voters": 3, "probe": {"every": "1s", "within": "2s"}}`, "probe.within: 2s: it must not be above probe.every, 1s"},
		{`{"voters": 3, "clocks": {"ppm": 5001}}`, "clocks.ppm: 5001: it must be a whole number, 0 to 5000"},
		{`{"voters": 3, "link": {"median": "1ms"}, "simulate": {"for": "1s", "worlds": 2}}`, "simulate.worlds: 2: so each lasts 500ms only"},
		{`{"voters": 3, "link": {"median": "1ms"}, "simulate": {"for": "10000h"}}`, "simulate.for: 10000h0m0s: that is 108000000 probes"},
		{`{"simulate": {"seed": -1}}`, "simulate.seed: -1"},
	} {
		s, err := Read(strings.NewReader(row.text))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.90s\ngives %+v, %v\nwant something with %q", row.text, s, err, row.want)
		}
	}
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	_, err := Read(strings.NewReader(`{"voters": 99, "ttl": 1, "zzz": 1, "link": {"median": "1h"}}`))
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("it tells\n%v\nwant four lines", err)
	}
}

func TestNodesHaveNames(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{`{"voters": 3, "others": 2, "link": {"median": "1ms"}}`, "a* b* c* x1 x2"},
		{`{"groups": [{"name": "n", "voters": 2, "others": 1}, {"name": "s", "voters": 1, "others": 2}], "link": {"median": "1ms"}}`,
			"n-1* n-2* s-1* n-3 s-2 s-3"},
	} {
		var names []string
		for _, n := range mustRead(t, row.text).nodes() {
			if n.voter {
				n.name += "*"
			}
			names = append(names, n.name)
		}
		if got := strings.Join(names, " "); got != row.want {
			t.Errorf("%s: %s, want %s", row.text, got, row.want)
		}
	}
}

// TestEveryFieldIsInTheReference also demands that each field accepts its own bounds: the reference
// and the checks both come from the tags.
func TestEveryFieldIsInTheReference(t *testing.T) {
	text := Reference()
	var walk func(t2 reflect.Type, path string)
	walk = func(t2 reflect.Type, path string) {
		for _, f := range fields(t2) {
			name := f.Tag.Get("json")
			switch {
			case name == "" || f.Tag.Get("doc") == "":
				t.Errorf("%s%s has no name or no words", path, f.Name)
			case !strings.Contains(text, "| `"+path+name+"` |"):
				t.Errorf("the reference has no row for %s%s", path, name)
			}
			switch {
			case f.Type.Kind() == reflect.Struct:
				walk(f.Type, path+name+".")
			case f.Type == reflect.TypeFor[[]Group]():
				walk(f.Type.Elem(), path+name+"[].")
			case f.Type == reflect.TypeFor[Duration](), f.Type.Kind() == reflect.Int, f.Type.Kind() == reflect.Float64:
				for _, of := range []string{"min", "max"} {
					value := f.Tag.Get(of)
					if f.Type == reflect.TypeFor[Duration]() {
						value = fmt.Sprintf("%q", value)
					}
					if strings.Contains(path, "[") {
						// Reading a single field would need the other fields of the list element.
						continue
					}
					parts := strings.Split(path+name, ".")
					doc := value
					for i := len(parts) - 1; i >= 0; i-- {
						doc = fmt.Sprintf("{%q: %s}", parts[i], doc)
					}
					if _, err := Read(strings.NewReader(doc)); err != nil && strings.Contains(err.Error(), "it must be "+bounds(f.Tag)) {
						t.Errorf("%s refuses its own bound: %v", doc, err)
					}
				}
			}
		}
	}
	walk(reflect.TypeFor[Scenario](), "")
}
