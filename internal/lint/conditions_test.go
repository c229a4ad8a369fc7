package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"testing"
)

// shortConditions are the packages in which a condition in a test may have at most two
// alternatives. In all others it may have four.
var shortConditions = []string{"internal/cli/direct", "internal/cli/forward", "internal/cli/health",
	"internal/cli/kafka", "internal/kafkaclient", "test/kit/fakeapi"}

// TestConditionsOfTestsAreShort checks that a condition in a test has at most four alternatives, or
// two in the packages of shortConditions. If a longer condition fails, the message does not show
// which alternative was true. Split it into several checks with one message each, or into rows of a
// table.
func TestConditionsOfTestsAreShort(t *testing.T) {
	for _, file := range sources(t) {
		if !isTest(file) {
			continue
		}
		limit := 4
		if slices.Contains(shortConditions, path.Dir(file)) {
			limit = 2
		}
		for _, place := range longerThan(t, file, limit) {
			t.Errorf("%s: a condition of more than %d alternatives", place, limit)
		}
	}
}

// longerThan returns the positions of conditions in a file that have more than limit alternatives.
func longerThan(t *testing.T, file string, limit int) (places []token.Position) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, root+file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		if branch, ok := node.(*ast.IfStmt); ok && alternatives(branch.Cond) > limit {
			places = append(places, set.Position(branch.Pos()))
		}
		return true
	})
	return places
}

// alternatives returns the number of operands of || in a condition.
func alternatives(condition ast.Expr) int {
	switch e := condition.(type) {
	case *ast.ParenExpr:
		return alternatives(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.LOR {
			return alternatives(e.X) + alternatives(e.Y)
		}
	}
	return 1
}

func TestAlternativesAreCounted(t *testing.T) {
	for condition, want := range map[string]int{"a": 1, "a && b": 1, "a || b": 2,
		"a || (b || c)": 3, "a && (b || c || d)": 1} {
		parsed, err := parser.ParseExpr(condition)
		if err != nil {
			t.Fatal(err)
		}
		if got := alternatives(parsed); got != want {
			t.Errorf("%s: got %d, want %d", condition, got, want)
		}
	}
}
