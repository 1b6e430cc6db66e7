package lockmesh

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The words that a newcomer stumbles over, in a thousand words of the comments of production code: those that stand for a noun which is named elsewhere, and
// persons that no reader knows. etcd's raft has 26 of the former and 0.1 of the latter.
const (
	referencesMost = 30
	unknownMost    = 0.3
)

var (
	references = []string{"it", "that", "them", "those", "one", "which", "what"}
	unknown    = []string{"nobody", "whoever", "somebody", "whose", "whom"}
	comment    = regexp.MustCompile(`(?:^|\s)//\s?(.*)`)
	word       = regexp.MustCompile(`[a-z']+`)
)

// TestCommentsNameTheirNouns is a ratchet: where it fails, name the noun and the actor. CONTRIBUTING.md tells the rule.
func TestCommentsNameTheirNouns(t *testing.T) {
	words, refers, who := 0, 0, 0
	for name, text := range repository(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for line := range strings.Lines(text) {
			m := comment.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil || strings.HasPrefix(m[1], "go:") || strings.HasPrefix(m[1], "nolint") {
				continue
			}
			for _, w := range word.FindAllString(strings.ToLower(m[1]), -1) {
				words++
				if slices.Contains(references, w) {
					refers++
				}
				if slices.Contains(unknown, w) {
					who++
					t.Logf("%s: %s", name, strings.TrimSpace(line))
				}
			}
		}
	}
	if words < 100_000 {
		t.Fatalf("found only %d words of comments", words)
	}
	thousand := float64(words) / 1000
	t.Logf("%d words: %.1f references and %.2f unknown persons in a thousand", words, float64(refers)/thousand, float64(who)/thousand)
	if got := float64(refers) / thousand; got > referencesMost {
		t.Errorf("%.1f references in a thousand words, at most %d: name the noun", got, referencesMost)
	}
	if got := float64(who) / thousand; got > unknownMost {
		t.Errorf("%.2f unknown persons in a thousand words, at most %.1f: name the actor", got, unknownMost)
	}
}
