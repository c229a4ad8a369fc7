package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestVariablesNameWhatTheyAre rejects variables, parameters and fields named "of" or "at", because
// a reader would have to look up what they contain.
func TestVariablesNameWhatTheyAre(t *testing.T) {
	for _, file := range sources(t) {
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, root+file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range unclear(parsed) {
			t.Errorf("%s:%d: the variable %s does not say what it holds", file,
				set.Position(name.Pos()).Line, name.Name)
		}
	}
}

// unclear returns the declarations of variables, parameters, results and fields named "of" or "at".
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

// TestUnclearNames checks that unclear finds each kind of declaration, but no methods.
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
