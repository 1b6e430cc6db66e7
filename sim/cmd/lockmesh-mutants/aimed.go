package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// aimedText has the mutants written by hand, a line each: file, kind, the source to replace (once
// in the file), and its replacement, separated by tabs. Lines that begin with # state the rule
// broken by the next mutant.
//
//go:embed aimed.txt
var aimedText string

// aimed reads aimed.txt. It fails when a file no longer contains the source to replace.
func aimed(root string) ([]site, error) {
	wraps := map[string]func(int, string, string) string{
		"condition": choose, "value": pick, "statement": instead, "omitted": omit,
	}
	var all []site
	rule := ""
	for i, line := range strings.Split(aimedText, "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case strings.HasPrefix(line, "#"):
			rule = strings.TrimSpace(strings.TrimPrefix(line, "#"))
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) == 3 && fields[1] == "omitted" {
			fields = append(fields, "(nothing)")
		}
		if len(fields) != 4 || wraps[fields[1]] == nil || rule == "" {
			return nil, fmt.Errorf("aimed.txt:%d: want a rule in a comment before, and "+
				"file, kind (condition, value, statement, omitted), old and new, separated by tabs", i+1)
		}
		file, old := fields[0], fields[2]
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return nil, fmt.Errorf("aimed.txt:%d: %w", i+1, err)
		}
		if n := strings.Count(string(text), old); n != 1 {
			return nil, fmt.Errorf("aimed.txt:%d: %q stands in %s %d times, not once; "+
				"follow the code, or take the mutant out", i+1, old, file, n)
		}
		at := strings.Index(string(text), old)
		made := site{
			id: "aimed: " + rule, pkg: filepath.ToSlash(filepath.Dir(file)), file: file,
			line: 1 + strings.Count(string(text[:at]), "\n"), op: opAimed,
			start: at, end: at + len(old), old: old, now: fields[3], wrap: wraps[fields[1]],
		}
		for _, o := range all {
			if made.crosses(o) {
				return nil, fmt.Errorf("aimed.txt:%d: %q and %q share a part of %s; "+
					"make one of them shorter", i+1, old, o.old, file)
			}
		}
		all = append(all, made)
	}
	return all, nil
}
