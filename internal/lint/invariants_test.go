package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCleanerInvariantHasATest checks that docs/internals/cleaner-invariants.md lists every
// invariant. For each invariant the page must name an existing test, whose name contains the
// invariant, or state why there is no test.
func TestEveryCleanerInvariantHasATest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "internals", "cleaner-invariants.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([IXF]\d+) \|.*\|(.*)\|$`).FindAllStringSubmatch(string(page), -1) {
		if rows[row[1]] != "" {
			t.Errorf("%s is listed twice", row[1])
		}
		rows[row[1]] = row[2]
	}
	tests := testNames(t)
	for kind, last := range map[string]int{"I": 44, "X": 3, "F": 16} {
		for number := 1; number <= last; number++ {
			name := fmt.Sprintf("%s%d", kind, number)
			row := rows[name]
			named := regexp.MustCompile("`Test([A-Z]\\d+)*" + name + `[A-Z]`).MatchString(row)
			if !named && !strings.Contains(row, "no test of its own: ") {
				t.Errorf("%s: got no test named after it in row %q", name, row)
			}
		}
	}
	checkTestsExist(t, string(page), tests)
}

// TestEveryTransactionFaultHasATest checks that docs/internals/transactions.md names existing tests
// for each fault.
func TestEveryTransactionFaultHasATest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "internals", "transactions.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|.*\|(.*)\|$`).FindAllStringSubmatch(string(page), -1)
	for i, row := range rows {
		if row[1] != fmt.Sprint(i+1) || !strings.Contains(row[2], "`Test") {
			t.Errorf("row %d: got number %s and tests %q", i+1, row[1], row[2])
		}
	}
	if len(rows) != 29 {
		t.Errorf("got %d faults, want 29", len(rows))
	}
	checkTestsExist(t, string(page), testNames(t))
}

// checkTestsExist checks that the tests that a page names exist.
func checkTestsExist(t *testing.T, page string, tests map[string]bool) {
	t.Helper()
	for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1) {
		if !tests[name[1]] {
			t.Errorf("test %s does not exist", name[1])
		}
	}
}

// testNames returns the names of all tests in the directories internal and test.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, dir := range []string{"internal", "test"} {
		addTestNames(t, filepath.Join(root, dir), names)
	}
	return names
}

func addTestNames(t *testing.T, dir string, names map[string]bool) {
	t.Helper()
	err := filepath.WalkDir(dir,
		func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(content), -1) {
				names[found[1]] = true
			}
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
}
