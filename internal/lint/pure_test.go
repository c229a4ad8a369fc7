package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// impureImports are packages that provide locks or I/O. The subpackages of os and net are also
// impure.
var impureImports = []string{"sync", "sync/atomic", "os", "net", "syscall", "io/fs",
	module + "internal/vfs"}

// impureTimeFuncs are the functions of package time that read the clock or start a timer.
var impureTimeFuncs = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick",
	"NewTimer", "NewTicker"}

func TestPurePackagesHaveNoSideEffects(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range sources(t) {
		allowed, pure := purePackages[path.Dir(file)]
		if !pure || isTest(file) {
			continue
		}
		seen[path.Dir(file)] = true
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, root+file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range impurities(parsed, allowed) {
			t.Errorf("%s: %s in a pure package", set.Position(fault.pos), fault.what)
		}
	}
	for pkg := range purePackages {
		if !seen[pkg] {
			t.Errorf("purePackages: %s does not exist; remove the entry", pkg)
		}
	}
}

type impurity struct {
	pos  token.Pos
	what string
}

// impurities returns the imports, calls and statements in a file that a pure package must not
// contain. Parameter allowed lists imports that are permitted nevertheless.
func impurities(file *ast.File, allowed []string) (found []impurity) {
	timeName := ""
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value) // cannot fail, because the file was parsed
		if imported == "time" {
			timeName = "time"
			if spec.Name != nil {
				timeName = spec.Name.Name
			}
		}
		if isImpure(imported) && !slices.Contains(allowed, imported) {
			found = append(found, impurity{spec.Pos(), "import of " + imported})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, impurity{n.Pos(), "go statement"})
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && timeName != "" && x.Name == timeName &&
				slices.Contains(impureTimeFuncs, n.Sel.Name) {
				found = append(found, impurity{n.Pos(), "time." + n.Sel.Name})
			}
		}
		return true
	})
	return found
}

func isImpure(imported string) bool {
	return slices.Contains(impureImports, imported) || strings.HasPrefix(imported, "os/") ||
		strings.HasPrefix(imported, "net/")
}

func TestImpurities(t *testing.T) {
	const source = `package p
import (
	"os"
	"sync"
	clock "time"
	"net/http"
	"sort"
)
func f() { go f(); clock.Now(); clock.Unix(0, 0); sort.Ints(nil) }
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, fault := range impurities(file, []string{"sync"}) {
		got = append(got, fault.what)
	}
	want := []string{"import of os", "import of net/http", "go statement", "time.Now"}
	if !slices.Equal(got, want) {
		t.Errorf("got impurities %q, want %q", got, want)
	}
}
