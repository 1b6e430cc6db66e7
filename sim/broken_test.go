package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A brokenRule is a rule of elections broken in the source itself, out of reach of a wrapper around
// a node. All broken rules are compiled into one lockmesh-sim through an overlay, so no file of the
// repository changes; an environment variable chooses the rule that a run breaks. (Mutant schemata:
// Untch, Offutt and Harrold, "Mutation analysis using mutant schemata", 1993.)
type brokenRule struct {
	name string
	// file holds the rule. The string old occurs exactly once in file and is replaced by text. In
	// text, BROKEN stands for "this is the rule to break", so text contains the intact rule as
	// well.
	file, old, text string
	// more are the further replacements for the same rule.
	more []edit
}

// edit is a replacement in a file.
type edit struct{ file, old, text string }

// The runs that look for broken rules.
const (
	brokenSeeds   = 300 // a rule that survives so many worlds counts as not found
	brokenSeconds = 60  // length of the faults in each world
)

const (
	changeFile  = "internal/electorate/change.go"
	paxosFile   = "internal/electorate/paxos.go"
	machineFile = "internal/electorate/machine.go"
	otherFile   = "internal/electorate/other.go"
	foundFile   = "internal/electorate/found.go"
	voterFile   = "lease/electorate.go"
	coverFile   = "quorum/electorates.go"
	nodeFile    = "internal/node/dynamic.go"
)

// atOnce sends an answer without waiting until the state behind the answer is stored.
const atOnce = "if BROKEN {\n\t\tm.send(conn, answer)\n\t\treturn\n\t}\n\tm.after(conn, answer)"

var brokenRules = []brokenRule{
	{
		name: "half a drain", file: changeFile,
		old: "< Drain(m.maxTTL()) ||", text: "< Drain(m.maxTTL())/vote.If(BROKEN, time.Duration(2), 1) ||",
	},
	{
		name: "a drain of the smaller maximum TTL", file: "internal/electorate/tick.go",
		old: "Drain(m.maxTTL()))", text: "Drain(vote.If(BROKEN, m.state.Electorate.GrantLimit(m.cfg.MaxTTL), m.maxTTL())))",
		more: []edit{{changeFile, "d := &m.state.Electorate, &m.drain\n", "d := &m.state.Electorate, &m.drain\n\tif BROKEN && d.begun && m.now.Slow.Sub(d.since) >= Drain(e.GrantLimit(m.cfg.MaxTTL)) {\n\t\td.since = m.now.Slow - vote.Instant(Drain(m.maxTTL()))\n\t}\n"}},
	},
	{
		name: "a restarted voter is quiet for the smaller maximum TTL", file: "lease/voter.go",
		old: "cfg.Electorate.QuietTime(cfg.MaxTTL)", text: "vote.If(BROKEN, cfg.Electorate.GrantLimit(cfg.MaxTTL), cfg.Electorate.QuietTime(cfg.MaxTTL))",
	},
	{
		name: "an acknowledgement under the version before counts for what the newest grants", file: coverFile,
		old: "e.before.granted(ttl)))", text: "vote.If(BROKEN, e.newest.granted(ttl), e.before.granted(ttl))))",
	},
	{
		name: "an extension shortens a vote", file: "lease/residual.go",
		old: "max(x.until, v.now.Slow.Add(min(x.length, v.grantLimit())))", text: "max(vote.If(BROKEN, 0, x.until), v.now.Slow.Add(min(x.length, v.grantLimit())))",
	},
	{
		name: "three quarters of a drain", file: changeFile,
		old: "m.now.Slow.Sub(d.since) <", text: "vote.If(BROKEN, m.now.Slow.Sub(d.since)*4/3, m.now.Slow.Sub(d.since)) <",
	},
	{
		name: "no drain at all", file: changeFile,
		old: "!d.begun || ", text: "!d.begun || !BROKEN && ",
	},
	{
		name: "the drain begins when the new half alone applies the joint electorate", file: changeFile,
		old:  "!d.begun && decides(e, ",
		text: "!d.begun && vote.If(BROKEN, onlyNew, decides)(e, ",
		more: []edit{{changeFile, "// applies reports", "func onlyNew(e *vote.Electorate, some func(vote.Elector) bool) bool {\n" +
			"\treturn majority(e.Voters, some)\n}\n\n// applies reports"}},
	},
	{
		name: "the minimum token is asked of the new half alone", file: changeFile,
		old:  "if !decides(e, confirms) {",
		text: "if BROKEN && !majority(e.Voters, confirms) || !BROKEN && !decides(e, confirms) {",
		more: []edit{{changeFile, "range e.All() {\n\t\tif !confirms(v)", "range vote.If(BROKEN, e.Voters, e.All()) {\n\t\tif !confirms(v)"}},
	},
	{
		name: "the minimum token is what was heard before the drain ended", file: changeFile,
		old: "if d.fresh == 0 {", text: "if d.fresh == 0 && !BROKEN {",
	},
	{
		name: "the minimum token is asked as the drain begins", file: changeFile,
		old: "d.begun, d.since = true, m.now.Slow",
		text: "d.begun, d.since = true, m.now.Slow\n\t\td.early = m.own.Top\n\t\tfor _, o := range m.others {\n" +
			"\t\t\tif slices.Contains(d.seen, vote.Elector{Name: o.name, Dir: o.report.dir}) {\n\t\t\t\td.early = max(d.early, o.report.top)\n\t\t\t}\n\t\t}",
		more: []edit{
			{changeFile, "begun bool\n", "begun bool\n\tearly vote.Token\n"},
			{changeFile, "MinToken: max(e.MinToken, min(minToken,", "MinToken: max(e.MinToken, min(vote.If(BROKEN, d.early, minToken),"},
		},
	},
	{
		name: "the minimum token leaves out what this voter knows itself", file: changeFile,
		old: "minToken = max(minToken, m.own.Top)", text: "minToken = max(minToken, vote.If(BROKEN, 0, m.own.Top))",
	},
	{
		name: "voters that are quiet speak for the minimum token", file: changeFile,
		old: "o.report.counting &&", text: "(BROKEN || o.report.counting) &&",
	},
	{
		name: "an acceptor forgets what it has promised", file: paxosFile,
		old: "if a != m.state.Promised {", text: "if a != m.state.Promised && !BROKEN {",
	},
	{
		name: "an acceptor accepts whatever it has promised", file: paxosFile,
		old: "Kind: vote.KindAccepted, Version: msg.Version, Consensus: &vote.Consensus{Ballot: a, Promised: m.state.Promised, Dir: m.state.Dir}}\n" +
			"\tif a.Compare(m.state.Promised) < 0 {",
		text: "Kind: vote.KindAccepted, Version: msg.Version, Consensus: &vote.Consensus{Ballot: a, Promised: m.state.Promised, Dir: m.state.Dir}}\n" +
			"\tif a.Compare(m.state.Promised) < 0 && !BROKEN {",
	},
	{
		name: "promised before it is stored", file: paxosFile,
		old:  "= a, m.state.Accepted, m.state.Value\n\tm.after(conn, answer)",
		text: "= a, m.state.Accepted, m.state.Value\n\t" + atOnce,
	},
	{
		name: "accepted before it is stored", file: paxosFile,
		old: "answer.Consensus.Promised = a\n\tm.after(conn, answer)", text: "answer.Consensus.Promised = a\n\t" + atOnce,
	},
	{
		name: "an answer rests on the save before", file: machineFile,
		old: "if a.writes <= state.Writes {", text: "if BROKEN || a.writes <= state.Writes {",
	},
	{
		name: "answers are sent though their save has failed", file: machineFile,
		old:  "m.deferred = nil // the state behind the answers isn't stored; the waiting nodes ask again",
		text: "for _, a := range m.deferred {\n\t\t\tif BROKEN {\n\t\t\t\tm.send(a.conn, a.m)\n\t\t\t}\n\t\t}\n\t\tm.deferred = nil",
	},
	{
		name: "a proposer ignores what was accepted", file: paxosFile,
		old: "if msg.Kind == vote.KindPrepared && e.Accepted.Compare", text: "if !BROKEN && msg.Kind == vote.KindPrepared && e.Accepted.Compare",
	},
	{
		name: "a proposer takes the first value that was accepted", file: paxosFile,
		old: "e.Accepted.Compare(r.best) > 0 &&", text: "(e.Accepted.Compare(r.best) > 0 && (!BROKEN || r.best.Counter == 0)) &&",
	},
	{
		name: "a proposer takes the last value that it hears of", file: paxosFile,
		old: "(e.Accepted.Compare(r.best) > 0 ", text: "((e.Accepted.Compare(r.best) > 0 || BROKEN && e.Accepted.Counter > 0) ",
	},
	{
		name: "answers to an earlier ballot count", file: paxosFile,
		old: "|| e.Ballot != r.ballot ||", text: "|| !BROKEN && e.Ballot != r.ballot ||",
	},
	{
		name: "promises count as acceptances", file: paxosFile,
		old: "m.race.accepting, m.race.with = true, nil", text: "m.race.accepting, m.race.with = true, vote.If(BROKEN, m.race.with, nil)",
	},
	{
		name: "half of the voters decide, where a majority is needed", file: paxosFile,
		old: "return majority(m.state.Electorate.Deciding(), ",
		text: "if n := len(m.state.Electorate.Deciding()); BROKEN && len(r.with) >= max(n/2, 1) {\n\t\treturn true\n\t}\n" +
			"\treturn majority(m.state.Electorate.Deciding(), ",
	},
	{
		name: "ballots are numbered by the directory", file: paxosFile,
		old: "Counter: m.number, By: m.cfg.Self.Incarnation}", text: "Counter: m.number, By: vote.If(BROKEN, vote.Incarnation(m.state.Dir), m.cfg.Self.Incarnation)}",
	},
	{
		name: "a wiped voter votes in elections under its name", file: paxosFile,
		old:  "&& m.Trusted() && slices.Contains(m.state.Electorate.Deciding(), m.Elector())",
		text: "&& m.Trusted() && (slices.Contains(m.state.Electorate.Deciding(), m.Elector()) || BROKEN && m.names(m.cfg.Self.Node))",
		more: []edit{{paxosFile, "v := vote.Elector{Name: from, Dir: e.Dir}", "v := vote.Elector{Name: from, Dir: e.Dir}\n" +
			"\tfor _, d := range m.state.Electorate.Deciding() {\n\t\tif BROKEN && d.Name == from {\n\t\t\tv = d\n\t\t}\n\t}"}},
	},
	{
		name: "a voter applies an electorate before it is stored", file: nodeFile,
		old: "stored, trust := n.elect.Stored(), ", text: "stored, trust := vote.If(BROKEN, n.elect.Known(), n.elect.Stored()), ",
		more: []edit{
			{otherFile, "Nonce: msg.Nonce, Epoch: m.stored.Electorate.Version, Token", "Nonce: msg.Nonce, Epoch: vote.If(BROKEN, m.state, m.stored).Electorate.Version, Token"},
			{changeFile, "!m.member() || m.stored.Electorate.Version !=", "!m.member() || !BROKEN && m.stored.Electorate.Version !="},
		},
	},
	{
		name: "what a new incarnation finds in its directory is taken for stored", file: otherFile,
		old: "m.Trusted() && m.everStored\n", text: "m.Trusted() && (BROKEN || m.everStored)\n",
	},
	{
		name: "an acknowledgement counts under the newest electorate whatever its voter applies", file: coverFile,
		old: "\tswitch elected {", text: "\tif BROKEN {\n\t\telected = e.newest.version\n\t}\n\tswitch elected {",
	},
	{
		name: "voters don't heed the minimum token", file: voterFile,
		old: "l.tokens.raiseMin(e.MinToken)", text: "l.tokens.raiseMin(vote.If(BROKEN, 0, e.MinToken))",
	},
	{
		name: "votes from before the minimum token keep their tokens", file: voterFile,
		old: "if v.tokens.min > minToken || e.MinToken > before.MinToken || before.unraised {", text: "if !BROKEN && (v.tokens.min > minToken || e.MinToken > before.MinToken || before.unraised) {",
	},
	{
		name: "a founder pledges anew when others come", file: foundFile,
		old: "if len(m.state.Pledge) == 0 {", text: "if len(m.state.Pledge) == 0 || BROKEN && !slices.Equal(m.state.Pledge, founders) {",
	},
	{
		name: "founders don't wait for the pledges of others", file: foundFile,
		old: "if v == m.Elector() {\n\t\t\tcontinue\n\t\t}\n\t\tif o :=", text: "if BROKEN || v == m.Elector() {\n\t\t\tcontinue\n\t\t}\n\t\tif o :=",
	},
	{
		name: "a pledge counts before it is stored", file: foundFile,
		old: "!slices.Equal(m.stored.Pledge, founders)", text: "!slices.Equal(vote.If(BROKEN, m.state, m.stored).Pledge, founders)",
		more: []edit{{otherFile, "e.Electorate.MaxTTL = m.stored.Pledge,", "e.Electorate.MaxTTL = vote.If(BROKEN, m.state, m.stored).Pledge,"}},
	},
	{
		name: "a directory that isn't stored founds", file: otherFile,
		old: "m.founding() && m.everStored,", text: "m.founding() && (BROKEN || m.everStored),",
	},
}

// envBroken is the environment variable with the name of the rule that lockmesh-sim breaks.
const envBroken = "LOCKMESH_BROKEN"

// brokenFile is added to package vote, since all other packages of the core import vote.
const brokenFile = `package vote

import "os"

var broken = os.Getenv("` + envBroken + `")

func Breaks(rule string) bool { return broken == rule }

func If[T any](is bool, x, y T) T {
	if is {
		return x
	}
	return y
}
`

// overlay writes the broken sources, and returns the overlay file for the go command.
func overlay(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, b := range brokenRules {
		for _, e := range append([]edit{{b.file, b.old, b.text}}, b.more...) {
			text, ok := texts[e.file]
			if !ok {
				content, err := os.ReadFile(filepath.Join(root, e.file))
				if err != nil {
					t.Fatal(err)
				}
				text = strings.ReplaceAll(string(content), "\r\n", "\n")
			}
			if n := strings.Count(text, e.old); n != 1 {
				t.Fatalf("%s: the rule that is to be broken occurs %d times in %s, not once: %q", b.name, n, e.file, e.old)
			}
			breaks := fmt.Sprintf("vote.Breaks(%q)", b.name)
			texts[e.file] = strings.Replace(text, e.old, strings.ReplaceAll(e.text, "BROKEN", breaks), 1)
		}
	}
	texts["internal/vote/broken.go"] = brokenFile
	dir, replace := t.TempDir(), make(map[string]string)
	for file, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The table of broken rules in docs/simulation.md: each rule with the first seed to find the rule
// broken.
const (
	brokenPage  = "../docs/simulation.md"
	brokenBegin = "<!-- broken rules -->\n"
	brokenEnd   = "<!-- end of broken rules -->"
	brokenHead  = "| broken rule | file | worlds to kill | check |\n|---|---|--:|---|\n"
)

var brokenRow = regexp.MustCompile(`(?m)^\| (.+?) \| .+? \| (over )?(\d+) \| (.*?) \|$`)

// TestBrokenRulesStandInTheSource compares the table of rules with the source, where the code of
// each rule must occur once, and with docs/simulation.md, which must list exactly these rules. The
// search for worlds that find the broken rules takes minutes, and belongs to
// TestBrokenRulesAreFoundByRandomWorlds.
func TestBrokenRulesStandInTheSource(t *testing.T) {
	overlay(t)
	table := tableOfBrokenRules(t)
	listed := make(map[string]bool)
	for _, row := range brokenRow.FindAllStringSubmatch(table.rows, -1) {
		listed[row[1]] = true
	}
	for _, b := range brokenRules {
		if !listed[b.name] {
			t.Errorf("%s doesn't list the broken rule %q", brokenPage, b.name)
		}
	}
	if len(listed) != len(brokenRules) {
		t.Errorf("%s lists %d broken rules, and there are %d", brokenPage, len(listed), len(brokenRules))
	}
}

// brokenTable is the page in three parts: the text before the table, the rows, and the text after.
type brokenTable struct{ before, rows, after string }

func tableOfBrokenRules(t *testing.T) brokenTable {
	t.Helper()
	text, err := os.ReadFile(brokenPage)
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "\r\n", "\n")
	before, rest, ok := strings.Cut(page, brokenBegin)
	rows, after, closed := strings.Cut(rest, brokenEnd)
	if !ok || !closed {
		t.Fatalf("%s has no table between %q and %q", brokenPage, brokenBegin, brokenEnd)
	}
	return brokenTable{before, rows, after}
}
