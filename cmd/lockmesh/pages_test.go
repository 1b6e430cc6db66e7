package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// pages returns the documentation pages of the whole repository, except the changelog and the
// decision records, which describe the past.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "adr" || d.Name() == "out" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".md") || d.Name() == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(name)
		texts[name] = strings.ReplaceAll(string(text), "\r\n", "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

var (
	codeBlock = regexp.MustCompile("(?ms)^( *)```[a-z]*\n(.*?)\n *```")
	// commandLine is a call of the command in a block of code: at the start of a line or behind
	// another command, perhaps with a prompt.
	commandLine = regexp.MustCompile(`(?m)(?:^ *(?:\$ )?|[;&|(] *)lockmesh +([^\n]*)`)
	// inlineCall is a call in the text.
	inlineCall = regexp.MustCompile("`lockmesh ([^`]*)`")
	// noCalls look like calls but aren't: names of spans, and a placeholder.
	noCalls = []string{"trylock", "lease", "VERB -h"}
)

// words splits the words behind the name of the command, up to the end of the command. The quotes
// of a shell are understood as far as the pages use quotes.
func words(line string) (all []string) {
	word, inWord, quote := "", false, rune(0)
	end := func() {
		if inWord {
			all = append(all, word)
		}
		word, inWord = "", false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ':
			end()
		case strings.ContainsRune("|;&<>()", r) || r == '#' && !inWord:
			end()
			return all
		default:
			word, inWord = word+string(r), true
		}
	}
	end()
	return all
}

// TestTheCallsInPagesAreUnderstood: each command line with lockmesh in a block of code can be
// parsed, and each call named in the text has an existing verb and existing options.
func TestTheCallsInPagesAreUnderstood(t *testing.T) {
	parse := func(args []string) (*kong.Context, error) {
		c := new(cli)
		parser, err := newParser(c, &streams{})
		if err != nil {
			t.Fatal(err)
		}
		args, _, _ = cutCommand(args)
		return parser.Parse(args)
	}
	lines, calls := 0, 0
	for name, text := range pages(t) {
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			code := strings.ReplaceAll(block[2], "\\\n", " ")
			for _, m := range commandLine.FindAllStringSubmatch(code, -1) {
				args := words(m[1])
				if len(args) == 0 {
					continue
				}
				lines++
				if _, err := parse(args); err != nil {
					t.Errorf("%s: lockmesh %s: %v", name, m[1], err)
				}
			}
		}
		for _, m := range inlineCall.FindAllStringSubmatch(text, -1) {
			args := words(m[1])
			if len(args) == 0 || slices.Contains(noCalls, m[1]) {
				continue
			}
			calls++
			// The text may leave out required arguments of the verb; then another error comes
			// first.
			_, err := parse(slices.DeleteFunc(args, func(a string) bool { return a == "…" }))
			if p := (*kong.ParseError)(nil); err != nil && (!errors.As(err, &p) || !strings.HasPrefix(err.Error(), "expected \"<")) {
				t.Errorf("%s: `lockmesh %s`: %v", name, m[1], err)
			}
		}
	}
	if lines < 15 || calls < 15 {
		t.Errorf("found only %d command lines and %d calls", lines, calls)
	}
}

// TestNewSecretsAreForOneUser: a page that writes a new secret to a file has the file readable by
// its user alone, as keygen -h does.
// TestUnitsNameTheAddressOfTheMachine: a unit for several machines sets the address at which the
// other machines reach each machine. An agent without the setting may advertise an address of
// Docker, which is the same on all machines.
func TestUnitsNameTheAddressOfTheMachine(t *testing.T) {
	units := 0
	for name, text := range pages(t) {
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(block[2], "[Service]\n") || !strings.Contains(block[2], "LOCKMESH_PEERS=") {
				continue
			}
			units++
			if !strings.Contains(block[2], "Environment=LOCKMESH_ADVERTISE=") {
				t.Errorf("%s has a unit for several machines without LOCKMESH_ADVERTISE:\n%s", name, block[2])
			}
		}
	}
	if units == 0 {
		t.Error("no page has a unit of systemd for several machines")
	}
}

func TestNewSecretsAreForOneUser(t *testing.T) {
	lines := 0
	for name, text := range pages(t) {
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(block[2]) {
				if !strings.Contains(line, "lockmesh keygen > ") {
					continue
				}
				lines++
				if !strings.HasPrefix(strings.TrimSpace(line), "(umask 077; lockmesh keygen > ") {
					t.Errorf("%s: the secret can be read by others: %s", name, line)
				}
			}
		}
	}
	if lines == 0 {
		t.Error("no page makes a secret")
	}
}
