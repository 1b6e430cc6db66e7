package lockmesh

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestCommentsBesideGoNameTheirNouns reads the comments of files in other languages: each kind has
// the limits of the comments in Go.
func TestCommentsBesideGoNameTheirNouns(t *testing.T) {
	sampled.Unraced(t)
	hash := regexp.MustCompile(`(?:^|\s)##?\s(.*)`)
	for _, row := range []struct {
		kind       string
		files      map[string]string
		comment    *regexp.Regexp
		leastWords int
	}{
		{"conversations with a voter", matching(t, "lease/testdata/*.txt"), hash, 2_000},
		{"scripts", joined(matching(t, "Makefile", ".ci/*"), repository(t, ".sh")), hash, 1_500},
		{"deployments", joined(matching(t, ".golangci.yml"), repository(t, ".yaml")), hash, 500},
		{"JavaScript", joined(repository(t, ".js"), repository(t, ".mjs")), comment, 1_500},
	} {
		t.Run(row.kind, func(t *testing.T) {
			p := &prose{t: t, leastWords: row.leastWords}
			for name, text := range row.files {
				for line := range strings.Lines(text) {
					line = strings.TrimRight(line, "\n")
					at := row.comment.FindStringSubmatchIndex(line)
					if at == nil {
						continue
					}
					text := line[at[2]:]
					if strings.TrimSpace(line[:at[0]]) != "" {
						line = "" // code decides how wide the line is
					}
					p.add(name, line, text)
				}
			}
			p.check()
		})
	}
}

// matching returns the files with names that match a pattern, by name.
func matching(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s matches %d files: %v", pattern, len(names), err)
		}
		for _, name := range names {
			if info, err := os.Stat(name); err != nil || info.IsDir() {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.ToSlash(name)] = strings.ReplaceAll(string(text), "\r\n", "\n")
		}
	}
	return texts
}

// joined returns the files of two maps in the first.
func joined(a, b map[string]string) map[string]string {
	maps.Copy(a, b)
	return a
}
