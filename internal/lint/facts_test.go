package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

const factsFile = "controllers/logcluster/facts/facts.go"

// TestFactsAreImmutable checks that the LogCluster controllers set no field of facts.Facts, and
// access its partitions only through its methods. Variables s and found contain the Facts.
func TestFactsAreImmutable(t *testing.T) {
	fields := fieldsOf(t, factsFile, "Facts")
	if !fields["Sets"] || !fields["Pods"] {
		t.Fatalf("got the fields %v of Facts", fields)
	}
	checked := 0
	for _, file := range sources(t) {
		if isTest(file) || !strings.HasPrefix(file, "controllers/logcluster/") ||
			strings.HasPrefix(file, "controllers/logcluster/facts") {
			continue
		}
		checked++
		ast.Inspect(parsed(t, file), func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if field := factsField(left); fields[field] {
						t.Errorf("%s sets Facts.%s: pass the result on instead", file, field)
					}
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "All" && factsField(n.X) == "Sets" {
					t.Errorf("%s walks over all partitions: add to the walk of Facts", file)
				}
			}
			return true
		})
	}
	if checked < 15 {
		t.Errorf("%d files checked, want those of all packages", checked)
	}
}

// factsField returns the field that an expression selects in a variable that contains Facts, or "".
func factsField(e ast.Expr) string {
	selected, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if variable, ok := selected.X.(*ast.Ident); ok &&
		(variable.Name == "s" || variable.Name == "found") {
		return selected.Sel.Name
	}
	return ""
}

// fieldsOf returns the names of the fields of a struct.
func fieldsOf(t *testing.T, file, name string) map[string]bool {
	t.Helper()
	fields := map[string]bool{}
	ast.Inspect(parsed(t, file), func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			for _, id := range field.Names {
				fields[id.Name] = true
			}
		}
		return false
	})
	return fields
}

// parsed returns the syntax tree of a file.
func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), root+file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
