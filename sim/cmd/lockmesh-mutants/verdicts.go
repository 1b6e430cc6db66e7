package main

import (
	_ "embed"
	"fmt"
	"strings"
)

// verdictText has the known survivors, one a line: the mutant's id, a verdict and the reason,
// separated by tabs. The verdicts:
//
//	asserted   no test can tell the mutant from the genuine code, for the reason given; an assertion
//	           in the code, or in an audit of its state, fails with an alarm if the reason is wrong
//	cost       the mutant makes locks slower or dearer, never wrong; benchmarks show it, tests don't
//
//go:embed verdicts.txt
var verdictText string

// known reads verdicts.txt.
func known() (map[string]string, error) {
	all := make(map[string]string)
	for i, line := range strings.Split(verdictText, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, rest, _ := strings.Cut(line, "\t")
		verdict, reason, _ := strings.Cut(rest, "\t")
		switch {
		case verdict != "asserted" && verdict != "cost" || reason == "":
			return nil, fmt.Errorf("verdicts.txt:%d: want id, verdict (asserted or cost) and "+
				"a reason, separated by tabs", i+1)
		case all[id] != "":
			return nil, fmt.Errorf("verdicts.txt:%d: %s has a verdict already", i+1, id)
		}
		all[id] = verdict + ": " + reason
	}
	return all, nil
}
