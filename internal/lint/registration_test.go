package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"strconv"
	"strings"
	"testing"
)

// registrationFile is the only file that names the annotations which a broker writes on its Lease.
const registrationFile = "api/v1alpha1/registration.go"

// TestOnlyRegistrationNamesTheAnnotationsOfBrokers: every other file reads and writes them by
// v1alpha1.Registration. Tests may name them: they damage a Lease, or check its text.
func TestOnlyRegistrationNamesTheAnnotationsOfBrokers(t *testing.T) {
	written := annotationConstants(t)
	for _, file := range sources(t) {
		if file == registrationFile || isTest(file) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), root+file, nil,
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for name := range named(parsed, written) {
			t.Errorf("%s names %s: use v1alpha1.Registration", file, name)
		}
	}
}

// annotationConstants returns the names and the values of the constants in registrationFile.
func annotationConstants(t *testing.T) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), root+registrationFile, nil,
		parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Annotation") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("constant %s is not a literal", spec.Names[0].Name)
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found[spec.Names[0].Name], found[value] = true, true
		return true
	})
	if len(found) != 32 {
		t.Fatalf("got %d names and values of annotations, want those of 16", len(found))
	}
	return found
}

// named returns the identifiers and string literals of a file that are in a set.
func named(file *ast.File, set map[string]bool) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.Ident:
			found[n.Name] = true
		case *ast.BasicLit:
			if value, err := strconv.Unquote(n.Value); err == nil {
				found[value] = true
			}
		}
		return true
	})
	maps.DeleteFunc(found, func(name string, _ bool) bool { return !set[name] })
	return found
}
