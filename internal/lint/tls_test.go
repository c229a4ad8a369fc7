package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"testing"
)

// TestConfigurationsOfTLSHaveOneOrigin checks that only internal/tlsconfig contains a composite
// literal of tls.Config, so that the minimum TLS version applies to every connection.
func TestConfigurationsOfTLSHaveOneOrigin(t *testing.T) {
	found := 0
	for _, file := range sources(t) {
		if isTest(file) || below(file, []string{"test", "hack"}) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), root+file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		n := tlsLiterals(parsed)
		if path.Dir(file) == "internal/tlsconfig" {
			found += n
		} else if n > 0 {
			t.Errorf("%s has a literal of tls.Config: use internal/tlsconfig", file)
		}
	}
	if found == 0 {
		t.Error("internal/tlsconfig has no literal of tls.Config: the test finds none")
	}
}

// tlsLiterals returns the number of tls.Config literals in a file.
func tlsLiterals(file *ast.File) (n int) {
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		selector, ok := literal.Type.(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != "Config" {
			return true
		}
		if name, ok := selector.X.(*ast.Ident); ok && name.Name == "tls" {
			n++
		}
		return true
	})
	return n
}
