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
	// quotedPath is a path of this repository as documents name it: in backquotes, from its root.
	quotedPath = regexp.MustCompile(
		"`((?:internal|cmd|api|controllers|config|charts|docs|hack|test)/[A-Za-z0-9_./*-]+)`",
	)
	// docsPath is a document as comments in the code name it; an ADR may be named by its number
	// alone.
	docsPath = regexp.MustCompile(`\bdocs/[A-Za-z0-9_./-]*[A-Za-z0-9]`)
)

// TestLinksInDocumentsLeadSomewhere holds for links within the repository; those to elsewhere need
// the network.
func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	for _, document := range documents(t) {
		for _, target := range links(t, document) {
			if _, err := os.Stat(root + target); err != nil {
				t.Errorf("%s links to %s, which is not there", document, target)
			}
		}
	}
}

// TestPathsInDocumentsExist: a document that sends its reader to a file that was renamed is worse
// than none.
func TestPathsInDocumentsExist(t *testing.T) {
	for _, document := range documents(t) {
		for _, found := range quotedPath.FindAllStringSubmatch(read(t, document), -1) {
			if !exists(found[1]) {
				t.Errorf("%s names %s, which is not there", document, found[1])
			}
		}
	}
	for _, file := range sources(t) {
		for _, named := range docsPath.FindAllString(read(t, file), -1) {
			if !exists(named) && !exists(named+"-*") {
				t.Errorf("%s names %s, which is not there", file, named)
			}
		}
	}
}

// TestEveryDocumentIsReached from the README, by links. A link to a folder reaches its README or,
// without one, all it holds: so docs/adr/README.md must list every decision.
func TestEveryDocumentIsReached(t *testing.T) {
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
			t.Errorf("%s: no way of links leads here from README.md", document)
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

// links are the targets of a document's links within the repository, from its root.
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

// exists tells whether a path of the repository, which may have stars, is there.
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
