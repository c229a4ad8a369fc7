package lint

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	// quotedPath matches a path in backquotes in a document. The path is relative to the root of
	// the repository.
	quotedPath = regexp.MustCompile(
		"`((?:internal|cmd|api|controllers|config|charts|docs|hack|test)/[A-Za-z0-9_./*-]+)`",
	)
	// quotedTest matches the name of a test in backquotes in a document.
	quotedTest  = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")
	definedTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)\(`)
	// docsPath matches the path of a document in a comment.
	docsPath = regexp.MustCompile(`\bdocs/[A-Za-z0-9_./-]*[A-Za-z0-9]`)
)

// TestLinksInDocumentsExist checks the links between files of the repository. It does not check
// external links, because that requires network access.
func TestLinksInDocumentsExist(t *testing.T) {
	for _, document := range documents(t) {
		for _, target := range links(t, document) {
			if _, err := os.Stat(root + target); err != nil {
				t.Errorf("%s links to %s, which does not exist", document, target)
			}
		}
	}
}

// TestPathsInDocumentsExist checks that paths mentioned in documents exist, and that paths of
// documents mentioned in Go files exist.
func TestPathsInDocumentsExist(t *testing.T) {
	for _, document := range documents(t) {
		for _, found := range quotedPath.FindAllStringSubmatch(read(t, document), -1) {
			if !exists(found[1]) {
				t.Errorf("%s names %s, which does not exist", document, found[1])
			}
		}
	}
	for _, file := range sources(t) {
		for _, named := range docsPath.FindAllString(read(t, file), -1) {
			if !exists(named) {
				t.Errorf("%s names %s, which does not exist", file, named)
			}
		}
	}
}

// TestTestsInDocumentsExist checks that the tests mentioned in documents exist.
func TestTestsInDocumentsExist(t *testing.T) {
	defined := map[string]bool{}
	for _, file := range sources(t) {
		for _, found := range definedTest.FindAllStringSubmatch(read(t, file), -1) {
			defined[found[1]] = true
		}
	}
	for _, document := range documents(t) {
		for _, found := range quotedTest.FindAllStringSubmatch(read(t, document), -1) {
			if !defined[found[1]] {
				t.Errorf("%s names %s, which does not exist", document, found[1])
			}
		}
	}
}

// TestEveryDocumentIsLinked checks that a reader can reach every document in docs from README.md by
// following links. A link to a directory leads to its README or, if there is none, to all its
// documents.
func TestEveryDocumentIsLinked(t *testing.T) {
	all := documents(t)
	reached := map[string]bool{}
	var visit func(document string)
	visit = func(document string) {
		if reached[document] || !slices.Contains(all, document) {
			return
		}
		reached[document] = true
		for _, target := range links(t, document) {
			readme := path.Join(target, "README.md")
			switch {
			case slices.Contains(all, readme):
				visit(readme)
			case !strings.HasSuffix(target, ".md"):
				for _, inside := range all {
					if path.Dir(inside) == target {
						visit(inside)
					}
				}
			default:
				visit(target)
			}
		}
	}
	visit("README.md")
	for _, document := range all {
		if strings.HasPrefix(document, "docs/") && !reached[document] {
			t.Errorf("%s cannot be reached from README.md by links", document)
		}
	}
}

// TestFoldersListTheirPages checks that the README of a folder in docs links to every other page of
// the folder, so that a reader finds all of them there.
func TestFoldersListTheirPages(t *testing.T) {
	folders := 0
	for _, readme := range documents(t) {
		folder, name := path.Split(readme)
		if name != "README.md" || !strings.HasPrefix(folder, "docs/") {
			continue
		}
		folders++
		listed := links(t, readme)
		for _, document := range documents(t) {
			if path.Dir(document)+"/" == folder && document != readme &&
				!slices.Contains(listed, document) {
				t.Errorf("%s does not link to %s", readme, document)
			}
		}
	}
	if folders < 6 {
		t.Errorf("only %d folders with a README", folders)
	}
}

// documents returns the paths of all Markdown files, relative to the root of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() && (strings.HasPrefix(base, ".") && len(base) > 2 || base == "testdata" ||
			base == "bin" || base == "heartwood-data") {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(base, ".md") {
			rel, err := filepath.Rel(root, name)
			found = append(found, filepath.ToSlash(rel))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// links returns the targets of a document's links to files in the repository, relative to the root.
func links(t *testing.T, document string) []string {
	t.Helper()
	var targets []string
	for _, found := range link.FindAllStringSubmatch(read(t, document), -1) {
		if !strings.Contains(found[1], "://") {
			targets = append(targets, path.Join(path.Dir(document), found[1]))
		}
	}
	return targets
}

// exists reports whether a file or directory matches a pattern, which is a path from the root and
// may contain *.
func exists(pattern string) bool {
	found, err := filepath.Glob(root + pattern)
	return err == nil && len(found) > 0
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(root + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
