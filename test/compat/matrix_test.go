//go:build compat

package compat

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

// matrix contains the results of this run, one row per test. With COMPATIBILITY=1 they replace the
// table in docs/compatibility.md, including failed and skipped tests.
var matrix struct {
	sync.Mutex
	rows map[string]*row // rows by test name
}

type row struct {
	client, version, checked, result string
	// notes are the failed steps with their reasons. They are appended to the result.
	notes []string
}

func TestMain(m *testing.M) {
	matrix.rows = map[string]*row{}
	code := process.Main(m)
	if os.Getenv("COMPATIBILITY") != "" {
		if err := writeMatrix("../../docs/compatibility.md"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// newRow returns a test's row. At the end of the test, it adds the row with the test's result to
// matrix. A test must call newRow first, because a skipped test needs a row, too.
func newRow(t *testing.T, client, checked string) *row {
	t.Helper()
	r := &row{client: client, checked: checked, version: "-"}
	t.Cleanup(func() {
		matrix.Lock()
		defer matrix.Unlock()
		switch {
		case t.Failed():
			r.result = "**failed**"
		case t.Skipped():
			r.result = "not run: not on the machine"
		default:
			r.result = "ok"
		}
		r.result = strings.Join(append([]string{r.result}, r.notes...), "; ")
		matrix.rows[t.Name()] = r
	})
	return r
}

// writeMatrix replaces the table between the markers of the page.
func writeMatrix(page string) error {
	const begin, end = "<!-- matrix -->\n", "<!-- /matrix -->"
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no matrix markers", page)
	}
	var rows []*row
	for _, r := range matrix.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a,
		b *row) int {
		return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.checked, b.checked))
	})
	var table strings.Builder
	table.WriteString("| client | version | what is checked | result |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", r.client, r.version, r.checked, r.result)
	}
	return os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o600)
}
