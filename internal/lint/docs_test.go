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
	// quotedPath matches a path of this repository in a document: in backquotes, from the root.
	quotedPath = regexp.MustCompile(
		"`((?:internal|cmd|api|controllers|config|charts|docs|hack|test)/[A-Za-z0-9_./*-]+)`",
	)
	// docsPath matches the path of a document in a comment. An ADR may be named by its number.
	docsPath = regexp.MustCompile(`\bdocs/[A-Za-z0-9_./-]*[A-Za-z0-9]`)
)

// External links are not checked, as that needs the network.
func TestLinksInDocumentsExist(t *testing.T) {
	for _, document := range documents(t) {
		for _, target := range links(t, document) {
			if _, err := os.Stat(root + target); err != nil {
				t.Errorf("%s links to %s, which does not exist", document, target)
			}
		}
	}
}

// Paths in documents, and of documents in comments, exist.
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
			if !exists(named) && !exists(named+"-*") {
				t.Errorf("%s names %s, which does not exist", file, named)
			}
		}
	}
}

// Every document can be reached from the README by links. A link to a directory reaches its README
// or, without one, all of its documents. So docs/adr/README.md must list every decision.
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

// documents lists the Markdown files of the repository, from its root.
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

// links returns the targets of links within the repository, from its root.
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

// exists reports whether a path of the repository, which may contain *, exists.
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
