package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModulesRequireTheVersionToCome holds each module that requires another module of this
// repository to one version, the release to come. Go ignores a replace directive in a dependency,
// so a placeholder such as v0.0.0 would make each adapter impossible to get once a version is
// tagged.
func TestModulesRequireTheVersionToCome(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "releasing.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`requires the version to come,\s+(v\d+\.\d+\.\d+),`).FindSubmatch(page)
	if named == nil {
		t.Fatal("docs/releasing.md doesn't name the version to come")
	}
	version := string(named[1])
	required := regexp.MustCompile(`(?m)^(?:require)?\s+?(` + module + `\S*) (v\S+)`)
	modules := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case d.Name() != "go.mod" || filepath.Dir(path) == root:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		requires := required.FindAllSubmatch(text, -1)
		if len(requires) > 0 {
			modules++
		}
		for _, r := range requires {
			if string(r[2]) != version {
				t.Errorf("%s requires %s %s, and docs/releasing.md says %s", path, r[1], r[2], version)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if modules < 10 {
		t.Errorf("%d modules require the root, there are more", modules)
	}
}
