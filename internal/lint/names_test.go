package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"testing"
)

// TestVariablesNameWhatTheyAre rejects variables, parameters and fields called of or at: a reader
// must look up what they hold. The number in a folder of unclearNames must not grow, and is lowered
// with each one that is renamed.
func TestVariablesNameWhatTheyAre(t *testing.T) {
	found := map[string]int{}
	for _, file := range sources(t) {
		if below(file, renamedLater) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), root+file, nil,
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(unclear(parsed)); n > 0 {
			found[path.Dir(file)] += n
		}
	}
	for folder, n := range found {
		if limit := unclearNames[folder]; n > limit {
			t.Errorf("%s has %d variables called of or at, more than %d", folder, n, limit)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(unclearNames)) {
		if n := found[folder]; n < unclearNames[folder] {
			t.Logf("%s has %d variables called of or at: lower its number, %d", folder, n,
				unclearNames[folder])
		}
	}
}

// unclear returns the declarations of variables, parameters, results and fields called of or at.
func unclear(file *ast.File) (found []*ast.Ident) {
	add := func(name ast.Expr) {
		if id, ok := name.(*ast.Ident); ok && (id.Name == "of" || id.Name == "at") {
			found = append(found, id)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, name := range n.Lhs {
					add(name)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key)
				add(n.Value)
			}
		}
		return true
	})
	return found
}

// TestUnclearNames: each kind of declaration is found, and a method is not.
func TestUnclearNames(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", `package p
type s struct { at int }
func f(of int) (at int) { var of int; at, ok := g(); for of, at := range m {}; return }
func (s) of() { of = 3; x.at = 4 }`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(unclear(parsed)); got != 7 {
		t.Errorf("found %d declarations, want 7", got)
	}
}
