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

// TestProtocolPageListsTheTestsOfQuirks checks that docs/internals/protocol.md lists each TestQuirk
// function in the row of its quirk, and no other functions.
func TestProtocolPageListsTheTestsOfQuirks(t *testing.T) {
	text, err := os.ReadFile("../../docs/internals/protocol.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "<!-- quirks -->\n")
	table, _, found := strings.Cut(rest, "<!-- /quirks -->")
	if !found {
		t.Fatal("docs/internals/protocol.md has no quirks markers")
	}
	var listed []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		for _, name := range quirkName.FindAllStringSubmatch(line, -1) {
			if name[1] != strings.TrimSpace(cells[1]) {
				t.Errorf("%s is in row %s", name[0], cells[1])
			}
			listed = append(listed, name[0])
		}
	}
	var tests []string
	declared := regexp.MustCompile(`(?m)^func (TestQuirk\w+)\(`)
	must(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range declared.FindAllStringSubmatch(string(source), -1) {
			tests = append(tests, found[1])
		}
		return err
	}))
	slices.Sort(listed)
	slices.Sort(tests)
	if !slices.Equal(listed, tests) {
		t.Errorf("tests in docs/internals/protocol.md: got\n%s\nwant\n%s", strings.Join(listed, "\n"),
			strings.Join(tests, "\n"))
	}
}

var quirkName = regexp.MustCompile(`TestQuirk(\d+)\w+`)
