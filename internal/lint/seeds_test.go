package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// drawing are the files whose random numbers decide nothing of what a test proves.
var drawing = []string{
	"test/kit/seed/seed.go",
	"test/kit/process/process.go", // ports
}

// TestSeedsComeFromTheKit: no test draws from the source that Go seeds at each start, nor makes a
// seed of the time. What such a test finds it finds in another's change, once, and not again.
func TestSeedsComeFromTheKit(t *testing.T) {
	for _, file := range sources(t) {
		if !isTest(file) && !strings.HasPrefix(file, "test/") || slices.Contains(drawing, file) ||
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
			switch called, of := callee(call); {
			case of == "rand" && !strings.HasPrefix(called, "New"), of == "quick":
				t.Errorf("%s: %s.%s: take the seed from test/kit/seed", set.Position(call.Pos()),
					of, called)
			case called == "NewPCG" && slices.ContainsFunc(call.Args, tellsTheTime):
				t.Errorf("%s: a seed of the time: take it from test/kit/seed",
					set.Position(call.Pos()))
			}
			return true
		})
	}
}

// callee returns what is called, and of what package or value if that has a plain name.
func callee(call *ast.CallExpr) (name, of string) {
	selected, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if x, ok := selected.X.(*ast.Ident); ok {
		of = x.Name
	}
	return selected.Sel.Name, of
}

// tellsTheTime tells whether an expression calls UnixNano or the like.
func tellsTheTime(e ast.Expr) (tells bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			name, _ := callee(call)
			tells = tells || strings.HasPrefix(name, "Unix")
		}
		return true
	})
	return tells
}
