package arch

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheTablesOfPackagesAreTheFolders compares the tables of packages in docs/packages.md with the
// folders that have Go files: each folder has a row of its own, or lies beneath a name with
// "/*", and each name in the first column is a folder, or has folders beneath.
func TestTheTablesOfPackagesAreTheFolders(t *testing.T) {
	named := namedByPage(t)
	folders := goFolders(t)
	if len(folders) < 70 || len(named) < 50 {
		t.Fatalf("found only %d folders with Go files, and %d names in the tables", len(folders), len(named))
	}
	for _, folder := range folders {
		if !slices.ContainsFunc(named, func(name string) bool { return covers(name, folder) }) {
			t.Errorf("the tables of docs/packages.md lack %s", folder)
		}
	}
	for _, name := range named {
		if !slices.ContainsFunc(folders, func(folder string) bool { return covers(name, folder) }) {
			t.Errorf("docs/packages.md names %s, and no folder with Go files is meant", name)
		}
	}
}

// covers reports whether a name in the tables means a folder. A name with "/*" means each folder
// beneath.
func covers(name, folder string) bool {
	if above, ok := strings.CutSuffix(name, "/*"); ok {
		return strings.HasPrefix(folder, above+"/")
	}
	return name == folder
}

// namedByPage returns the names in the first column of the tables of docs/packages.md.
func namedByPage(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "packages.md"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if name[1] == "lockmesh" {
				name[1] = "." // the root
			}
			named = append(named, name[1])
		}
	}
	return named
}

// goFolders returns the folders of the repository with Go files, by path from the root, testdata
// and hidden folders left out.
func goFolders(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	var folders []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "out"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		below, err := filepath.Rel(root, file)
		if folder := path.Dir(filepath.ToSlash(below)); !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}
