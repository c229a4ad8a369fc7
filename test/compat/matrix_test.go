//go:build compat

package compat

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/pages"
	"heartwood.dev/heartwood/test/kit/process"
)

// matrix contains the results of this run, one row per test. With COMPATIBILITY=1 they replace
// their rows in docs/compatibility.md, including failed and skipped tests.
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

// writeMatrix replaces the rows of this run in a page, and keeps those of tests that have not run
// (go test -run). A whole run replaces all rows.
func writeMatrix(page string) error {
	protocol, err := os.ReadFile("../../docs/internals/protocol.md")
	if err != nil {
		return err
	}
	apis, err := pages.HashAPIs(string(protocol))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	date := time.Now().UTC().Format(time.DateOnly)
	var rows []pages.ClientRow
	for _, r := range matrix.rows {
		rows = append(rows, pages.ClientRow{Client: r.client, Version: r.version, Checked: r.checked,
			Result: r.result, Date: date, APIs: apis})
	}
	if flag.Lookup("test.run").Value.String() != "" {
		present, err := pages.ClientRows(string(text))
		if err != nil {
			return err
		}
		rows = pages.MergeClientRows(present, rows)
	}
	changed, err := pages.WithClientRows(string(text), rows)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(changed), 0o600)
}
