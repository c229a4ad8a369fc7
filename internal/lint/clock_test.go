package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// clockExceptions contains test functions that sleep or compare elapsed time, but are permitted to.
// They run in a bubble although this rule cannot determine it, or they need the real clock. The key
// is "directory function", or "directory *" for a whole package; the value is the reason.
var clockExceptions = map[string]string{
	"cmd/heartwood TestCleanContinuesAfterKill": "kills a process at a random moment",
	"internal/broker TestClientsLearnTheNewLeaderBeforeAConnectionCloses": "a client that pauses " +
		"between requests; the result does not depend on the pause",
	"internal/logstore TestCrashes":                         "ends a series of random runs, not a run",
	"internal/logstore/cleaner TestHistoriesAgainstLedger":  "ends a series of random runs, not a run",
	"internal/timer TestCompletionsRaceExpiries":            "completes operations near their expiry",
	"internal/wire TestServeReturnsWhileAClientReadsSlowly": "a client that reads slowly",
	"internal/wire TestSingleByteRecordsAreEnded":           "a client that sends slowly",
	"internal/wire TestSlowAuthenticationIsEnded":           "a client that sends slowly",
	"test/crash produce":                                    "limits the rate of a producer",

	// Functions that have the same name as a function outside a bubble.
	"internal/logstore do":                        inBubbleOf + "TestCrashes",
	"internal/logstore Sync":                      inBubbleOf + "TestIdleIndexesDoNotDelayFlushes",
	"internal/logstore step":                      inBubbleOf + "the model tests",
	"internal/logstore/cleaner wait":              inBubbleOf + "the scenarios and of inBubble",
	"internal/logstore/cleaner open":              inBubbleOf + "the scenarios",
	"internal/logstore/cleaner until":             inBubbleOf + "inBubble",
	"internal/replica TestAcksAllEndsWithAnError": inBubbleOf + "inBubble",
	"test/sim *":                                  inBubbleOf + "every run; -sim.time ends a series of runs",

	// Suites that test real systems. make test does not run them.
	"test/compat *":     realSystem,
	"test/dashboards *": realSystem,
	"test/e2e *":        realSystem,
}

const (
	inBubbleOf = "runs only in the bubble of "
	realSystem = "observes a real system, such as a browser or a cluster, in time"
)

// TestTestsDoNotDependOnSpeed checks that tests neither call time.Sleep nor compare time.Since with
// a limit, except in a bubble of testing/synctest, where the clock is simulated. On the real clock,
// the result of such a test depends on the speed of the machine. Tests must wait for a condition
// instead (test/kit/await).
func TestTestsDoNotDependOnSpeed(t *testing.T) {
	packages := map[string][]string{}
	for _, file := range sources(t) {
		if isTest(file) || strings.HasPrefix(file, "test/") {
			packages[path.Dir(file)] = append(packages[path.Dir(file)], file)
		}
	}
	used := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		set := token.NewFileSet()
		var files []*ast.File
		for _, file := range packages[dir] {
			parsed, err := parser.ParseFile(set, root+file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, parsed)
		}
		for _, found := range realClockUses(files) {
			key := dir + " " + found.function
			if clockExceptions[dir+" *"] != "" {
				key = dir + " *"
			}
			if used[key] = true; clockExceptions[key] == "" {
				t.Errorf("%s: %s in %s: wait for a condition (test/kit/await), or use testing/synctest",
					set.Position(found.pos), found.what, found.function)
			}
		}
	}
	for key := range clockExceptions {
		if !used[key] {
			t.Errorf("clockExceptions: %s does not use the clock; remove the entry", key)
		}
	}
}

type clockUse struct {
	pos            token.Pos
	function, what string
}

// realClockUses returns the uses of the clock in those functions of a package that may run outside
// a synctest bubble. A function literal is in a bubble if it is an argument of synctest.Test, or of
// a function that itself calls synctest.Test. Another function is in a bubble if all references to
// it are in bubbles. Benchmarks are ignored, because they measure real time.
func realClockUses(files []*ast.File) (found []clockUse) {
	p := clockPackage{bubbles: map[string]bool{}, outside: map[string]bool{}}
	functions := map[string]*ast.FuncDecl{}
	for _, file := range files {
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if ok && function.Body != nil {
				p.functions = append(p.functions, function)
				functions[function.Name.Name] = function
				p.bubbles[function.Name.Name] = p.bubbles[function.Name.Name] || startsBubble(function)
			}
		}
	}
	p.spreadOutside(functions)
	for _, function := range p.functions {
		if !p.isOutside(function) || strings.HasPrefix(function.Name.Name, "Benchmark") {
			continue
		}
		p.inspect(function.Body, func(n ast.Node) {
			if what := clockCall(n); what != "" {
				found = append(found, clockUse{n.Pos(), function.Name.Name, what})
			}
		})
	}
	return found
}

// clockPackage contains the functions of one package. Methods are identified only by name, so a
// method counts as outside if any method with the same name does.
type clockPackage struct {
	functions []*ast.FuncDecl
	bubbles   map[string]bool // functions that call synctest.Test
	outside   map[string]bool // functions that are referenced outside every bubble
}

// spreadOutside marks the functions that are referenced from outside a bubble, directly or through
// other functions. It starts with the functions that go test calls, and the exported functions.
func (p *clockPackage) spreadOutside(functions map[string]*ast.FuncDecl) {
	for changed := true; changed; {
		changed = false
		for _, function := range p.functions {
			if !p.isOutside(function) {
				continue
			}
			p.inspect(function.Body, func(n ast.Node) {
				name := ""
				switch n := n.(type) {
				case *ast.Ident:
					name = n.Name
				case *ast.SelectorExpr:
					name = n.Sel.Name
				}
				if functions[name] != nil && !p.outside[name] {
					p.outside[name], changed = true, true
				}
			})
		}
	}
}

func (p *clockPackage) isOutside(function *ast.FuncDecl) bool {
	name := function.Name.Name
	return p.outside[name] || name == "init" || function.Recv == nil && function.Name.IsExported()
}

// inspect calls visit for those nodes below n that are outside a bubble.
func (p *clockPackage) inspect(n ast.Node, visit func(ast.Node)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || !p.isBubble(call) {
			visit(n)
			return true
		}
		p.inspect(call.Fun, visit)
		return false
	})
}

func (p *clockPackage) isBubble(call *ast.CallExpr) bool {
	switch called := call.Fun.(type) {
	case *ast.Ident:
		return p.bubbles[called.Name]
	case *ast.SelectorExpr:
		return isSynctest(called) || p.bubbles[called.Sel.Name]
	}
	return false
}

func startsBubble(function *ast.FuncDecl) (starts bool) {
	if strings.HasPrefix(function.Name.Name, "Test") {
		return false
	}
	ast.Inspect(function, func(n ast.Node) bool {
		selected, ok := n.(*ast.SelectorExpr)
		starts = starts || ok && isSynctest(selected)
		return true
	})
	return starts
}

func isSynctest(selected *ast.SelectorExpr) bool {
	x, ok := selected.X.(*ast.Ident)
	return ok && x.Name == "synctest" && selected.Sel.Name == "Test"
}

// clockCall describes a node that sleeps or compares elapsed time, or returns "".
func clockCall(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		if name, receiver := callee(n); receiver == "time" && name == "Sleep" {
			return "time.Sleep"
		}
	case *ast.BinaryExpr:
		ordered := n.Op == token.LSS || n.Op == token.LEQ || n.Op == token.GTR || n.Op == token.GEQ
		if ordered && (isSince(n.X) || isSince(n.Y)) {
			return "comparison of time.Since"
		}
	}
	return ""
}

func isSince(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, receiver := callee(call)
	return receiver == "time" && name == "Since"
}

func TestRealClockUses(t *testing.T) {
	const source = `package p
func TestReal(t *testing.T) { time.Sleep(1); helper(); simulate(t, func() { time.Sleep(2) }) }
func TestBubble(t *testing.T) { synctest.Test(t, func(t *testing.T) { inside(); time.Sleep(3) }) }
func helper() { if time.Since(begin) > limit { return } }
func inside() { time.Sleep(4) }
func simulate(t *testing.T, f func()) { synctest.Test(t, func(*testing.T) { f() }) }
func BenchmarkReal(b *testing.B) { time.Sleep(5) }
`
	file, err := parser.ParseFile(token.NewFileSet(), "p_test.go", source,
		parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, found := range realClockUses([]*ast.File{file}) {
		got = append(got, found.function+": "+found.what)
	}
	want := []string{"TestReal: time.Sleep", "helper: comparison of time.Since"}
	if !slices.Equal(got, want) {
		t.Errorf("got uses %q, want %q", got, want)
	}
}
