package handler

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/protocol.md names every test of a quirk, in the row of its number, and no other.
func TestProtocolPageNamesTheTestsOfQuirks(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "<!-- quirks -->\n")
	table, _, found := strings.Cut(rest, "<!-- /quirks -->")
	if !found {
		t.Fatal("docs/protocol.md has lost its marks")
	}
	var shown []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		for _, name := range quirkName.FindAllStringSubmatch(line, -1) {
			if name[1] != strings.TrimSpace(cells[1]) {
				t.Errorf("%s stands in row %s", name[0], cells[1])
			}
			shown = append(shown, name[0])
		}
	}
	var there []string
	declared := regexp.MustCompile(`(?m)^func (TestQuirk\w+)\(`)
	must(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range declared.FindAllStringSubmatch(string(source), -1) {
			there = append(there, found[1])
		}
		return err
	}))
	slices.Sort(shown)
	slices.Sort(there)
	if !slices.Equal(shown, there) {
		t.Errorf("the page has\n%s\nthere are\n%s", strings.Join(shown, "\n"),
			strings.Join(there, "\n"))
	}
}

var quirkName = regexp.MustCompile(`TestQuirk(\d+)\w+`)
