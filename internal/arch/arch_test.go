// Package arch checks the structure of the module: the allowed imports of each package, and the
// packages forbidden to the pure core.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lockmesh/lockmesh"

// pure are the packages that decide, with the packages of this module that each may import.
// Otherwise a pure package may import the harmless packages of the standard library only: a clock,
// I/O, a random source or a lock would make a run impossible to replay from its seed.
var pure = map[string][]string{
	"internal/vote":       nil,
	"lease":               {"internal/vote"},
	"quorum":              {"internal/vote"},
	"internal/electorate": {"internal/vote"},
	"internal/mismatch":   {"internal/vote"},
	"internal/watchmerge": {"internal/vote", "quorum"},
	"internal/node":       {"internal/vote", "internal/electorate", "internal/mismatch", "lease", "quorum"},
}

var harmless = []string{"bytes", "cmp", "container/heap", "container/list", "errors", "fmt", "hash/fnv", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time"}

// clocks are the identifiers of package time that read a clock or wait; durations are fine.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local"}

func TestTheCoreIsPure(t *testing.T) {
	for dir, own := range pure {
		files := parse(t, dir)
		if len(files) == 0 {
			t.Errorf("%s: no files; has it moved?", dir)
		}
		for name, f := range files {
			for _, imp := range f.Imports {
				path := strings.Trim(imp.Path.Value, `"`)
				if rest, ok := strings.CutPrefix(path, module+"/"); ok {
					if !slices.Contains(own, rest) {
						t.Errorf("%s imports %s: imports point inwards, %s may import only %v", name, path, dir, own)
					}
				} else if !slices.Contains(harmless, path) {
					t.Errorf("%s imports %s: the core does no I/O, reads no clock and draws no random numbers, so that a seed replays a run", name, path)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
					t.Errorf("%s has a goroutine or a channel at offset %d: the shell runs the core, the core runs nothing", name, n.Pos())
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
						t.Errorf("%s uses time.%s: the core is told the time", name, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// outside are the packages that know the terms of the protocol and none of its decisions.
var outside = map[string][]string{
	"member":          {"internal/vote"},
	"transport":       {"internal/vote"},
	"internal/world":  {"internal/vote", "member", "transport"},
	"internal/memnet": {"internal/vote", "internal/world", "member", "transport"},

	"internal/record":     {"internal/vote", "register"},
	"internal/statedir":   {"internal/vote"},
	"internal/backoff":    nil,
	"internal/wakeup":     nil,
	"internal/running":    nil,
	"internal/clock":      {"internal/vote", "internal/wakeup", "internal/world"},
	"internal/eventqueue": nil,
	"internal/logqueue":   nil,
	"internal/errs":       nil,
	"internal/netaddr":    nil,
	"internal/peers":      {"internal/netaddr"},
	"internal/discovery":  {"internal/backoff", "internal/clock", "internal/vote", "internal/wakeup", "internal/world", "member", "transport"},
	"internal/realworld":  {"internal/discovery", "internal/statedir", "internal/world", "member", "transport"},

	"internal/registerhttp": nil,

	".": {
		"internal/backoff", "internal/clock", "internal/engine", "internal/errs", "internal/mismatch", "internal/peers", "internal/netaddr", "internal/realworld", "internal/running",
		"internal/vote", "internal/wakeup", "internal/watchmerge", "internal/world", "quorum", "register",
	},
	"internal/engine": {
		"internal/clock", "internal/discovery", "internal/electorate", "internal/errs", "internal/eventqueue", "internal/logqueue", "internal/mismatch",
		"internal/netaddr", "internal/node", "internal/peers", "internal/record", "internal/statedir", "internal/vote", "internal/wakeup", "internal/watchmerge",
		"internal/world", "member", "quorum", "register", "transport",
	},
	// A check with the simulator's or the protocol's code could share their mistakes.
	"sim/check": {"internal/vote"},
	"sim/fault": {"internal/vote"},
	"register":  nil, // the package of a storage imports the packages needed there

	// Broken nodes run in a world and in the explorer, and know neither.
	"sim/internal/broken": {"internal/node", "internal/vote", "lease", "quorum"},
}

func TestTheShellKnowsOnlyTheTypes(t *testing.T) {
	for dir, own := range outside {
		files := parse(t, dir)
		if len(files) == 0 {
			t.Errorf("%s: no files; has it moved?", dir)
		}
		for name, f := range files {
			for _, imp := range f.Imports {
				if rest, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module+"/"); ok && !slices.Contains(own, rest) {
					t.Errorf("%s imports %s: it may import only %v", name, rest, own)
				}
			}
		}
	}
}

// shipped are the packages compiled into a program that imports lockmesh.
var shipped = []string{".", "admin", "lockmeshhttp", "internal/vote", "internal/backoff", "internal/clock", "internal/discovery", "internal/electorate", "internal/engine", "internal/errs", "internal/eventqueue", "internal/logqueue", "internal/mismatch", "internal/netaddr", "internal/node", "internal/peers", "internal/pipes", "internal/realworld", "internal/record", "internal/registerhttp", "internal/running", "internal/statedir", "internal/wakeup", "internal/world", "lease", "quorum", "member", "register", "register/kuberegister", "register/objectregister", "register/registerflag", "transport"}

func TestNothingShippedImportsWhatIsForTests(t *testing.T) {
	for _, dir := range shipped {
		for name, f := range parse(t, dir) {
			for _, imp := range f.Imports {
				path := strings.Trim(imp.Path.Value, `"`)
				if slices.Contains([]string{"testing", module + "/internal/adaptertest", module + "/internal/conversation", module + "/internal/memnet", module + "/internal/registerserver", module + "/internal/testwait", module + "/meshtest"}, path) ||
					strings.HasPrefix(path, "testing/") || strings.HasPrefix(path, module+"/sim") {
					t.Errorf("%s imports %s; only tests, and what is made for them, may", name, path)
				}
			}
		}
	}
}

// An application's tests must use the same code as the application, so meshtest imports the
// exported part of lockmesh, and the seam.
func TestMeshtestSeesTheMeshFromOutside(t *testing.T) {
	own := []string{"internal/memnet", "internal/world"}
	files := parse(t, "meshtest")
	if len(files) == 0 {
		t.Error("meshtest: no files; has it moved?")
	}
	for name, f := range files {
		for _, imp := range f.Imports {
			if rest, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module+"/"); ok && !slices.Contains(own, rest) {
				t.Errorf("%s imports %s: besides lockmesh itself it may import only %v", name, rest, own)
			}
		}
	}
}

// A server of a node is code that any application could write, without a way around the API.
func TestWhatServesANodeSeesItFromOutside(t *testing.T) {
	for _, dir := range []string{"admin", "lockmeshhttp"} {
		files := parse(t, dir)
		if len(files) == 0 {
			t.Errorf("%s: no files; has it moved?", dir)
		}
		for name, f := range files {
			for _, imp := range f.Imports {
				if rest, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module+"/"); ok {
					t.Errorf("%s imports %s: it may import lockmesh itself alone", name, rest)
				}
			}
		}
	}
}

// TestWhatIsBuiltOnLeasesUsesTheAPI: elections, barriers, latches and locks of several keys
// acquire leases as an application would. Of the engine these files may use only the means that an
// application has, too: clocks, a log, goroutines with an end; and they set the operation in errors
// (acquire, Inspect).
func TestWhatIsBuiltOnLeasesUsesTheAPI(t *testing.T) {
	may := []string{"Clocks", "Log", "Closing", "Spawn", "Self", "Inspect"}
	files := parse(t, ".")
	for _, name := range []string{"election.go", "barrier.go", "latch.go", "lockall.go"} {
		file := files[name]
		if file == nil {
			t.Errorf("no %s; has it moved?", name)
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := s.X.(*ast.SelectorExpr); ok && of.Sel.Name == "eng" && !slices.Contains(may, s.Sel.Name) {
				t.Errorf("%s uses %s of the engine: use the API, or add to the API what is missing", name, s.Sel.Name)
			}
			return true
		})
	}
}

func TestTheExaminationOfLockServicesKnowsNone(t *testing.T) {
	files := parse(t, "locktest")
	if len(files) == 0 {
		t.Error("locktest: no files; has it moved?")
	}
	for name, f := range files {
		for _, imp := range f.Imports {
			if first, _, _ := strings.Cut(strings.Trim(imp.Path.Value, `"`), "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %s: any service can be examined, so only the standard library may be imported", name, imp.Path.Value)
			}
		}
	}
	for _, dir := range []string{".", "internal/vote", "internal/node", "internal/statedir", "lease", "quorum", "member", "transport", "fence"} {
		for name, f := range parse(t, dir) {
			for _, imp := range f.Imports {
				if strings.Trim(imp.Path.Value, `"`) == module+"/locktest" {
					t.Errorf("%s imports locktest; only tests may", name)
				}
			}
		}
	}
}

func TestOnlyOneFileImportsSerf(t *testing.T) {
	for _, dir := range shipped {
		for name, f := range parse(t, dir) {
			for _, imp := range f.Imports {
				if strings.HasPrefix(strings.Trim(imp.Path.Value, `"`), "github.com/hashicorp/serf") && filepath.ToSlash(name) != "member/serf.go" {
					t.Errorf("%s imports serf; only member/serf.go does, so that it can be replaced", name)
				}
			}
		}
	}
}

// TestRoomsStaySmall bounds places that a newcomer reads first and that have grown before: a file
// of the root package covers one subject of the API, and a method of a wide type needs all of it.
// What needs a part belongs to the part: docs/adr/0052-layers-of-the-state-machines.md.
func TestRoomsStaySmall(t *testing.T) {
	const mostFiles = 25
	if n := len(parse(t, ".")); n > mostFiles {
		t.Errorf("the root has %d files, more than %d: put what belongs together into one file, or beneath the API", n, mostFiles)
	}
	for _, wide := range []struct {
		dir, typ string
		methods  int // at most
	}{
		{"sim", "World", 59}, {"quorum", "Requester", 84}, {"lease", "Voter", 74},
		{"internal/electorate", "Machine", 70}, {"internal/electorate", "contactLayer", 77},
		{"internal/engine", "loop", 86}, {"internal/engine", "Engine", 83}, {"internal/node", "Node", 96},
	} {
		methods := 0
		for _, f := range parse(t, wide.dir) {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
					if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok && types.ExprString(star.X) == wide.typ {
						methods++
					}
				}
				if wide.typ != "World" {
					continue
				}
				for _, part := range embeddedIn(d, wide.typ) {
					t.Errorf("sim.World embeds %s, whose methods become methods of World: give the field a name", part)
				}
			}
		}
		if methods == 0 || methods > wide.methods {
			t.Errorf("%s.%s has %d methods, more than %d: give them to the part that owns the fields", wide.dir, wide.typ, methods, wide.methods)
		}
	}
}

// embeddedIn returns the embedded fields of a struct type in a declaration.
func embeddedIn(d ast.Decl, name string) (parts []string) {
	gen, ok := d.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, spec := range gen.Specs {
		typ, ok := spec.(*ast.TypeSpec)
		if !ok || typ.Name.Name != name {
			continue
		}
		for _, field := range typ.Type.(*ast.StructType).Fields.List {
			if len(field.Names) == 0 {
				parts = append(parts, types.ExprString(field.Type))
			}
		}
	}
	return parts
}

// parse returns the files of a folder of the module, without tests.
func parse(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	entries, err := os.ReadDir(filepath.Join("..", "..", dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Join(dir, name)] = f
		}
	}
	return files
}
