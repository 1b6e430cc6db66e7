package lockmesh

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// The limits for words over which a newcomer stumbles, in a thousand words: pronouns for a noun
// named elsewhere, and persons unknown to the reader. The comments of etcd's raft have 26 of the
// former and 0.1 of the latter. wideMost is the share of lines wider than 100 columns, in a
// thousand.
const (
	referencesMost = 28
	unknownMost    = 0.3
	wideMost       = 1

	// A folder with enough words has limits of its own, so that no part hides behind the mean.
	folderWords          = 500
	folderReferencesMost = 40
	folderUnknownMost    = 1.0
)

var (
	references = []string{"it", "that", "them", "those", "one", "which", "what"}
	unknown    = []string{"nobody", "whoever", "somebody", "whose", "whom"}
	comment    = regexp.MustCompile(`(?:^|\s)//\s?(.*)`)
	word       = regexp.MustCompile(`[a-z']+`)
)

// prose counts the words and lines of a text for newcomers.
type prose struct {
	t                  *testing.T
	words, refers, who int
	lines, wide        int
	leastWords         int // fewer words mean that the text wasn't found
}

// add counts a line of a file; text is the part of the line for readers.
func (p *prose) add(file, line, text string) {
	p.lines++
	if utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > 100 {
		p.wide++
		p.t.Logf("%s: wider than 100 columns: %s", file, strings.TrimSpace(line))
	}
	if p.count(text) {
		p.t.Logf("%s: %s", file, strings.TrimSpace(line))
	}
}

// count counts the words of a text, and reports whether one is an unknown person.
func (p *prose) count(text string) (who bool) {
	for _, w := range word.FindAllString(strings.ToLower(text), -1) {
		p.words++
		if slices.Contains(references, w) {
			p.refers++
		}
		if slices.Contains(unknown, w) {
			p.who++
			who = true
		}
	}
	return who
}

// checkFolder is check for the comments of a folder.
func (p *prose) checkFolder(name string) {
	p.t.Helper()
	if p.words < folderWords {
		return
	}
	thousand := float64(p.words) / 1000
	if refers := float64(p.refers) / thousand; refers > folderReferencesMost {
		p.t.Errorf("%s: %.1f references in a thousand words, at most %d: name the noun", name, refers, folderReferencesMost)
	}
	if who := float64(p.who) / thousand; who > folderUnknownMost {
		p.t.Errorf("%s: %.2f unknown persons in a thousand words, at most %.1f: name the actor", name, who, folderUnknownMost)
	}
}

// check is a ratchet. If check fails, name the noun and the actor; CONTRIBUTING.md has the rule.
func (p *prose) check() {
	p.t.Helper()
	if p.words < p.leastWords {
		p.t.Fatalf("found only %d words", p.words)
	}
	thousand := float64(p.words) / 1000
	refers, who := float64(p.refers)/thousand, float64(p.who)/thousand
	wide := 1000 * float64(p.wide) / float64(p.lines)
	p.t.Logf("%d words: %.1f references and %.2f unknown persons in a thousand; of a thousand lines %.1f are wide", p.words, refers, who, wide)
	if refers > referencesMost {
		p.t.Errorf("%.1f references in a thousand words, at most %d: name the noun", refers, referencesMost)
	}
	if who > unknownMost {
		p.t.Errorf("%.2f unknown persons in a thousand words, at most %.1f: name the actor", who, unknownMost)
	}
	if wide > wideMost {
		p.t.Errorf("of a thousand lines %.1f are wider than 100 columns, at most %d: break the lines", wide, wideMost)
	}
}

// TestCommentsNameTheirNouns reads the comments of production code.
func TestCommentsNameTheirNouns(t *testing.T) { readComments(t, false, 100_000) }

// TestCommentsOfTestsNameTheirNouns reads the comments of tests.
func TestCommentsOfTestsNameTheirNouns(t *testing.T) { readComments(t, true, 50_000) }

func readComments(t *testing.T, tests bool, leastWords int) {
	sampled.Unraced(t)
	p, folders := &prose{t: t, leastWords: leastWords}, make(map[string]*prose)
	for name, text := range repository(t, ".go") {
		if strings.HasSuffix(name, "_test.go") != tests {
			continue
		}
		folder := folders[filepath.Dir(name)]
		if folder == nil {
			folder = &prose{t: t}
			folders[filepath.Dir(name)] = folder
		}
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			m := comment.FindStringSubmatch(line)
			if m == nil || strings.HasPrefix(m[1], "go:") || strings.HasPrefix(m[1], "nolint") {
				continue
			}
			if !strings.HasPrefix(strings.TrimSpace(line), "//") {
				line = "" // code decides how wide the line is
			}
			p.add(name, line, m[1])
			folder.count(m[1])
		}
	}
	p.check()
	for name, folder := range folders {
		folder.checkFolder(name)
	}
}

// declared is a declaration with a comment above it.
var declared = regexp.MustCompile(`(?m)^((?://.*\n)+)(?:func (?:\([^)]*\) )?|type )(\w+)`)

// TestCommentsBeginWithTheNames checks that the comment of a function or type begins with its name,
// for go doc. A renaming would leave the old name in the comment.
func TestCommentsBeginWithTheNames(t *testing.T) {
	sampled.Unraced(t)
	found := 0
	for name, text := range repository(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			first, _, _ := strings.Cut(m[1], "\n")
			words := strings.Fields(strings.TrimPrefix(first, "//"))
			if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
				words = words[1:]
			}
			if m[2] == "init" || strings.HasPrefix(first, "//go:") {
				continue
			}
			if found++; len(words) == 0 || !strings.HasPrefix(words[0], m[2]) {
				t.Errorf("%s: the comment of %s begins %q", name, m[2], first)
			}
		}
	}
	if found < 3000 {
		t.Errorf("found only %d comments", found)
	}
}

// TestPagesNameTheirNouns reads the prose of all pages, without tables and code.
func TestPagesNameTheirNouns(t *testing.T) {
	sampled.Unraced(t)
	p := &prose{t: t, leastWords: 40_000}
	for name, text := range repository(t, ".md") {
		code := false
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if !code && !strings.HasPrefix(line, "|") {
				p.add(name, line, line)
			}
		}
	}
	p.check()
}

// dialect matches words in the names of tests that a newcomer would have to look up; see
// docs/glossary.md for the standard words.
var dialect = regexp.MustCompile(`^func (?:Test|Fuzz|Benchmark|Example)\w*(?:Nobody|Whoever|Somebody|Refound|Statement[^s]|Stated|Restat|TwoLives|ALife|NewLife|InLine|Tale[A-Z]|Books?[A-Z(]|TakenUp|EarlierAttempt|LaterAttempt|Whom|Lookout|Courtesy|Following|TheLiving)\w*\(`)

// TestTheNamesOfTestsUseStandardWords: CI prints these names on a failure.
func TestTheNamesOfTestsUseStandardWords(t *testing.T) {
	t.Parallel()
	sampled.Unraced(t)
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		for line := range strings.Lines(page(t, path)) {
			if dialect.MatchString(line) {
				t.Errorf("%s: %s", path, line)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files: %v", files, err)
	}
}
