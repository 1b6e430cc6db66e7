package arch

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestTheRootsFilesFormNoCircle: the files of the root package can be read in an order in which
// each uses only names of files read before. Names are those of functions, types, constants and
// variables; methods are left out, since a type's methods may be in several files.
func TestTheRootsFilesFormNoCircle(t *testing.T) {
	files := parse(t, ".")
	home := make(map[string]string) // file by name declared there
	for file, f := range files {
		for _, name := range declared(f) {
			home[name] = file
		}
	}
	uses := make(map[string]map[string]string) // by file: a name used, by the name's file
	for file, f := range files {
		uses[file] = make(map[string]string)
		for name := range used(f) {
			if of := home[name]; of != "" && of != file {
				uses[file][of] = name
			}
		}
	}
	for len(uses) > 0 {
		read := slices.DeleteFunc(slices.Sorted(maps.Keys(uses)), func(file string) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(uses[file])), func(of string) bool { return uses[of] != nil })
		})
		if len(read) == 0 {
			for _, file := range slices.Sorted(maps.Keys(uses)) {
				for _, of := range slices.Sorted(maps.Keys(uses[file])) {
					if uses[of] != nil {
						t.Errorf("%s uses %s of %s, and both are in a circle, or use one: move a declaration", file, uses[file][of], of)
					}
				}
			}
			return
		}
		for _, file := range read {
			delete(uses, file)
		}
	}
}

// declared returns the names that a file declares for its package, methods left out.
func declared(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "_" || name == "init" })
}

// used returns the names in a file that may be of the file's package: selected names, names of
// fields and local variables are left out.
func used(f *ast.File) map[string]bool {
	names, other := make(map[string]bool), make(map[*ast.Ident]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			other[n.Sel] = true
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok {
				other[id] = true
			}
		case *ast.Field:
			for _, id := range n.Names {
				other[id] = true
			}
		case *ast.Ident:
			local := n.Obj != nil && (n.Obj.Kind == ast.Var || n.Obj.Kind == ast.Con) && !strings.HasPrefix(n.Name, "_") && f.Scope.Lookup(n.Name) != n.Obj
			if !other[n] && !local {
				names[n.Name] = true
			}
		}
		return true
	})
	return names
}
