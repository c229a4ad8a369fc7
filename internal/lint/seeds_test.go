package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// unseeded contains files whose random numbers do not affect which cases a test covers.
var unseeded = []string{
	"test/kit/seed/seed.go",
	"test/kit/ports/ports.go", // random ports
}

// TestSeedsComeFromTheKit checks that tests use neither the global random source nor a seed from
// the clock. Such tests would fail at random after unrelated changes, and the failures could not be
// reproduced.
func TestSeedsComeFromTheKit(t *testing.T) {
	for _, file := range sources(t) {
		if !isTest(file) && !strings.HasPrefix(file, "test/") || slices.Contains(unseeded, file) ||
			strings.HasPrefix(file, "test/e2e/") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, root+file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch called, receiver := callee(call); {
			case receiver == "rand" && !strings.HasPrefix(called, "New"), receiver == "quick":
				t.Errorf("%s: %s.%s: use a seed of test/kit/seed", set.Position(call.Pos()),
					receiver, called)
			case called == "NewPCG" && slices.ContainsFunc(call.Args, usesClock):
				t.Errorf("%s: seed from the clock: use a seed of test/kit/seed",
					set.Position(call.Pos()))
			}
			return true
		})
	}
}

// callee returns the name of the called function or method, and the identifier before the dot,
// which is a package or a receiver.
func callee(call *ast.CallExpr) (name, receiver string) {
	selected, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if x, ok := selected.X.(*ast.Ident); ok {
		receiver = x.Name
	}
	return selected.Sel.Name, receiver
}

// usesClock reports whether an expression calls a method whose name starts with Unix, such as
// UnixNano.
func usesClock(e ast.Expr) (uses bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			name, _ := callee(call)
			uses = uses || strings.HasPrefix(name, "Unix")
		}
		return true
	})
	return uses
}
