package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// The maximum lengths of files and functions, in lines. Most should be much shorter: about 150
// lines for a file and 10 for a function.
const (
	fileLinesMax     = 500
	functionLinesMax = 70
)

const root = "../../"

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	for _, file := range sources(t) {
		content, err := os.ReadFile(root + file)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(content), "\n"); lines > fileLinesMax {
			t.Errorf("%s has %d lines; the limit is %d", file, lines, fileLinesMax)
		}
		if isTest(file) {
			continue // a Ginkgo suite is one long function
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := set.Position(function.End()).Line - set.Position(function.Pos()).Line + 1
			if lines > functionLinesMax {
				t.Errorf("%s: %s has %d lines; the limit is %d", file, function.Name.Name, lines,
					functionLinesMax)
			}
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	documented := map[string]bool{}
	for _, file := range sources(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), root+file, nil,
			parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(file)
		documented[dir] = documented[dir] || parsed.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment: add doc.go", dir)
		}
	}
}

// sources returns the paths of the module's Go files, relative to the root. It omits generated
// files and nested modules.
func sources(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		base := filepath.Base(rel)
		if entry.IsDir() {
			_, otherModule := os.Stat(filepath.Join(name, "go.mod"))
			if rel != "." && (otherModule == nil || strings.HasPrefix(base, ".") ||
				base == "testdata" || base == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(base, ".go") && !strings.HasPrefix(base, "zz_generated") {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
