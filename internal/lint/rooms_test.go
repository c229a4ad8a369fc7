package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// typeLimit limits the size of a type that many files use, so that the type cannot become too large
// again. Files and methods are counted without tests; 0 means no limit.
type typeLimit struct {
	directory, name string
	methods, fields int
	files           int // number of files in the directory
}

// typeLimits contains the types that were once too large, with their current or maximum permitted
// counts.
var typeLimits = []typeLimit{
	{"internal/handler", "Handler", 15, 10, 7},
	{"internal/logstore", "Log", 62, 21, 22},
	{"internal/logstore", "Store", 59, 0, 0},
	{"internal/logstore/compaction", "Compaction", 27, 0, 0},
	{"internal/broker", "Broker", 0, 24, 26},
	{"internal/handler/data", "Handler", 0, 10, 0},
	{"internal/handler/groups", "Handler", 0, 10, 0},
	{"internal/handler/transactions", "Handler", 0, 10, 0},
	{"internal/handler/admin", "Handler", 0, 10, 0},
	{"controllers/logcluster", "Reconciler", 0, 10, 3},
}

// TestLargeTypesDoNotGrow checks that the methods, fields and files of each type are within
// typeLimits.
func TestLargeTypesDoNotGrow(t *testing.T) {
	counts := countTypes(t)
	for _, limit := range typeLimits {
		got := counts[limit.directory+"."+limit.name]
		if got == nil {
			t.Errorf("%s has no type %s", limit.directory, limit.name)
			continue
		}
		for _, c := range []struct {
			what       string
			count, max int
		}{
			{"methods", got.methods, limit.methods}, {"fields", got.fields, limit.fields},
			{"files", counts[limit.directory].files, limit.files},
		} {
			if c.max > 0 && c.count > c.max {
				t.Errorf("%s: %s has %d %s; the limit is %d", limit.directory, limit.name, c.count,
					c.what, c.max)
			}
		}
	}
}

// countTypes returns the counts for each type by DIRECTORY.NAME, and the number of files by
// DIRECTORY.
func countTypes(t *testing.T) map[string]*typeLimit {
	t.Helper()
	counts := map[string]*typeLimit{}
	count := func(key string) *typeLimit {
		if counts[key] == nil {
			counts[key] = &typeLimit{}
		}
		return counts[key]
	}
	for _, file := range sources(t) {
		if isTest(file) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), root+file, nil,
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		directory := path.Dir(file)
		count(directory).files++
		for _, decl := range parsed.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok && function.Recv != nil {
				count(directory+"."+receiver(function)).methods++
			}
			general, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				if declared, ok := spec.(*ast.TypeSpec); ok {
					count(directory + "." + declared.Name.Name).fields = fields(declared)
				}
			}
		}
	}
	return counts
}

// receiver returns the name of a method's receiver type.
func receiver(function *ast.FuncDecl) string {
	expression := function.Recv.List[0].Type
	if star, ok := expression.(*ast.StarExpr); ok {
		expression = star.X
	}
	if index, ok := expression.(*ast.IndexExpr); ok {
		expression = index.X
	}
	if name, ok := expression.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// fields returns the number of fields in a struct. An embedded type counts as one field.
func fields(spec *ast.TypeSpec) (n int) {
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, field := range structure.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}

// lineLimits contains the folders that were once one large package, with the maximum number of
// lines in a package, without tests.
var lineLimits = map[string]int{
	"controllers/logcluster":         900,
	"controllers/logcluster/apply":   900,
	"controllers/logcluster/facts":   900,
	"controllers/logcluster/maystop": 900,
	"controllers/logcluster/memory":  900,
	"controllers/logcluster/outcome": 900,
	"controllers/logcluster/replace": 900,
	"controllers/logcluster/roll":    900,
	"controllers/logcluster/status":  900,
	"internal/logstore":              4750,
	"internal/logstore/collector":    1500,
	"internal/logstore/compaction":   1200,
	"internal/logstore/datadir":      1500,
	"internal/logstore/durability":   1500,
	"internal/logstore/epochfile":    1500,
	"internal/logstore/lookup":       1500,
	"internal/logstore/offsets":      1500,
	"internal/logstore/progress":     1500,
	"internal/logstore/reader":       1500,
	"internal/logstore/recovery":     1500,
	"internal/logstore/segmentlist":  1500,
	"internal/logstore/sidecars":     1500,
	"internal/logstore/snapshots":    1500,
	"internal/logstore/swap":         1500,
	"internal/logstore/timestamps":   1500,
}

// TestLargePackagesDoNotGrow checks that the packages' lines are within lineLimits.
func TestLargePackagesDoNotGrow(t *testing.T) {
	lines := map[string]int{}
	for _, file := range sources(t) {
		if !isTest(file) {
			lines[path.Dir(file)] += strings.Count(read(t, file), "\n")
		}
	}
	for directory, limit := range lineLimits {
		switch got := lines[directory]; {
		case got == 0:
			t.Errorf("there is no package %s", directory)
		case got > limit:
			t.Errorf("%s has %d lines; the limit is %d", directory, got, limit)
		}
	}
}

// keyedMapsMax is the maximum number of struct fields in controllers/ with type keyed.Map. Each
// such field is state that must be deleted together with its resource, and that is lost at a
// restart.
const keyedMapsMax = 15

// TestStateInMapsDoesNotGrow checks the number of struct fields with type keyed.Map.
func TestStateInMapsDoesNotGrow(t *testing.T) {
	count := 0
	for _, file := range sources(t) {
		if isTest(file) || !strings.HasPrefix(file, "controllers/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), root+file, nil,
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		count += keyedMaps(parsed)
	}
	if count == 0 || count > keyedMapsMax {
		t.Errorf("controllers has %d fields of type keyed.Map; the limit is %d", count, keyedMapsMax)
	}
}

// keyedMaps returns the number of struct fields in a file with type keyed.Map.
func keyedMaps(file *ast.File) (n int) {
	ast.Inspect(file, func(node ast.Node) bool {
		structure, ok := node.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range structure.Fields.List {
			index, ok := field.Type.(*ast.IndexExpr)
			if !ok {
				continue
			}
			if selector, ok := index.X.(*ast.SelectorExpr); ok && selector.Sel.Name == "Map" {
				if name, ok := selector.X.(*ast.Ident); ok && name.Name == "keyed" {
					n += max(1, len(field.Names))
				}
			}
		}
		return true
	})
	return n
}
