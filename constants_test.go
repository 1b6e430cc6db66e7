package lockmesh

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/watchmerge"
	"github.com/lockmesh/lockmesh/transport"
)

// The constants of this package are literal values, for go doc, and equal the constants of the
// core.
func TestConstantsAreThoseOfTheCore(t *testing.T) {
	for _, row := range []struct {
		name     string
		here, of any
	}{
		{"MinTTL", MinTTL, vote.MinTTL},
		{"LongestTTL", LongestTTL, vote.LongestTTL},
		{"MaxVoters", MaxVoters, vote.MaxVoters},
		{"DefaultMaxVoters", DefaultMaxVoters, electorate.MaxVoters},
		{"MaxKeyLen", MaxKeyLen, vote.MaxKeyLen},
		{"MaxValueLen", MaxValueLen, vote.MaxValueLen},
		{"MaxReasonLen", MaxReasonLen, vote.MaxTextLen},
		{"MinSecretLen", MinSecretLen, transport.MinSecret},
		{"MaxSecrets", MaxSecrets, transport.MaxSecrets},
		{"MaxPermits", MaxPermits, vote.MaxPermits},
		{"Exclusive", vote.Mode(ModeExclusive), vote.Exclusive},
		{"Shared", vote.Mode(ModeShared), vote.Shared},
		{"Permit", vote.Mode(ModePermit), vote.Permit},
		{"Granted", watchmerge.Kind(EventGranted), watchmerge.Granted},
		{"Released", watchmerge.Kind(EventReleased), watchmerge.Released},
		{"Lost", watchmerge.Kind(EventLost), watchmerge.Lost},
		{"Waiting", watchmerge.Kind(EventWaiting), watchmerge.Waiting},
		{"Changed", watchmerge.Kind(EventChanged), watchmerge.Changed},
		{"Gap", watchmerge.Kind(EventGap), watchmerge.Gap},
		{"Synced", watchmerge.Kind(EventSynced), watchmerge.Synced},
	} {
		if row.here != row.of {
			t.Errorf("%s is %v here and %v in the core", row.name, row.here, row.of)
		}
	}
}

// An exported constant defined by another package's constant shows users an internal name.
func TestNoConstantShowsAnInternalName(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.CONST || strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, spec := range gen.Specs {
				for i, name := range spec.(*ast.ValueSpec).Names {
					if !name.IsExported() {
						continue
					}
					constants++
					if values := spec.(*ast.ValueSpec).Values; i < len(values) && showsInternalName(values[i]) {
						t.Errorf("%s: go doc shows an internal name for %s; write its value, and add it to TestConstantsAreThoseOfTheCore", path, name)
					}
				}
			}
		}
	}
	if constants < 20 {
		t.Errorf("only %d exported constants were found", constants)
	}
}

// showsInternalName reports whether an expression refers to a package other than time.
func showsInternalName(e ast.Expr) (shows bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name != "time" {
				shows = true
			}
		}
		return true
	})
	return shows
}
