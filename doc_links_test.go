package lockmesh

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// docLink matches a link of a comment to a name of Go, such as [Mesh.Ready] or
// [quorum.Requester.Query], and nothing that Markdown links.
var docLink = regexp.MustCompile(`\[\*?((?:[a-z][a-z0-9]*\.)?[A-Z][A-Za-z0-9]*(?:\.[A-Z][A-Za-z0-9]*)?)\](?:[^(:\[\w]|$)`)

// majorVersion matches the end of a module's path that isn't its package's name.
var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// modulePath is the import path of the root; the folders follow.
const modulePath = "github.com/lockmesh/lockmesh"

// declarations has the names declared at the top of a folder's files without tests, and
// Type.Member for methods, fields and methods of interfaces.
func declarations(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	files, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = baseName(d.Recv.List[0].Type) + "." + name
				}
				names[name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					declare(names, spec)
				}
			}
		}
	}
	return names
}

// declare adds the names of a declaration.
func declare(names map[string]bool, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range spec.Names {
			names[id.Name] = true
		}
	case *ast.TypeSpec:
		names[spec.Name.Name] = true
		var fields *ast.FieldList
		switch typ := spec.Type.(type) {
		case *ast.StructType:
			fields = typ.Fields
		case *ast.InterfaceType:
			fields = typ.Methods
		case *ast.SelectorExpr, *ast.Ident, *ast.IndexExpr:
			names[spec.Name.Name+".*"] = true // the members are those of another type
			return
		default:
			return
		}
		for _, f := range fields.List {
			if len(f.Names) == 0 {
				names[spec.Name.Name+".*"] = true // embedded: so are its members
				names[spec.Name.Name+"."+baseName(f.Type)] = true
			}
			for _, id := range f.Names {
				names[spec.Name.Name+"."+id.Name] = true
			}
		}
	}
}

// baseName returns the name of a type in a receiver or of an embedded field.
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestTheLinksInCommentsResolve checks that each bracketed name in a comment of a file without
// tests, such as [Mesh.Ready], is a name of the file's package, or of the package of this
// repository that the name begins with.
func TestTheLinksInCommentsResolve(t *testing.T) {
	t.Parallel()
	sampled.Unraced(t)
	known, links := make(map[string]map[string]bool), 0
	of := func(folder string) map[string]bool {
		if known[folder] == nil {
			known[folder] = declarations(t, folder)
		}
		return known[folder]
	}
	// The folders of each package name, for links of files that don't import the package.
	folders := make(map[string][]string)
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() && path != ".":
			folders[d.Name()] = append(folders[d.Name()], path)
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	folders["lockmesh"] = []string{"."}
	for _, path := range files {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		imports := make(map[string]string) // the import path by the name in the file
		for _, i := range f.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			name := majorVersion.ReplaceAllString(p, "")
			name = name[strings.LastIndex(name, "/")+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			imports[name] = p
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				for _, m := range docLink.FindAllStringSubmatch(c.Text, -1) {
					in, name := []string{filepath.Dir(path)}, m[1]
					if strings.ToUpper(name) == name {
						continue // the level of a log line
					}
					if pkg, rest, _ := strings.Cut(name, "."); strings.ToLower(pkg) == pkg {
						p, imported := imports[pkg]
						switch folder, ours := strings.CutPrefix(p, modulePath); {
						case imported && !ours || !imported && folders[pkg] == nil:
							continue // of another module
						case imported:
							in = []string{filepath.Join(".", folder)}
						default:
							in = folders[pkg]
						}
						name = rest
					}
					links++
					found := false
					typ, _, member := strings.Cut(name, ".")
					for _, folder := range in {
						found = found || of(folder)[name] || member && of(folder)[typ+".*"]
					}
					if !found {
						t.Errorf("%s: there is no [%s]", set.Position(c.Pos()), m[1])
					}
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were looked up", links)
	}
}
