package pages

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ClientRow is a row of the table in docs/compatibility.md: what a run of make compat has found for
// one client.
type ClientRow struct {
	Client, Version, Checked, Result string
	Date                             string // day of the run
	APIs                             string // hash of the APIs that the brokers of the run served
}

const (
	matrixBegin = "<!-- matrix -->\n"
	matrixEnd   = "<!-- /matrix -->"
	matrixHead  = "| client | version | what is checked | result | run | APIs |\n" +
		"|---|---|---|---|---|---|\n"
)

// apiRow matches the key, the name and the versions of an API in docs/internals/protocol.md.
var apiRow = regexp.MustCompile(`(?m)^\| (\d+) \| (\w+) \| (\d+-\d+) \|`)

// HashAPIs returns a hash of the APIs and versions in the table of docs/internals/protocol.md. A
// test in internal/handler keeps this table equal to the one that brokers serve.
func HashAPIs(protocol string) (string, error) {
	_, table, begins := strings.Cut(protocol, "<!-- table -->\n")
	table, _, ends := strings.Cut(table, "<!-- /table -->")
	rows := apiRow.FindAllStringSubmatch(table, -1)
	if !begins || !ends || len(rows) == 0 {
		return "", fmt.Errorf("the page of the protocol has no table of APIs")
	}
	hash := sha256.New()
	for _, row := range rows {
		_, _ = fmt.Fprintln(hash, row[1:])
	}
	return fmt.Sprintf("%x", hash.Sum(nil))[:8], nil
}

// ClientRows returns the rows of the table in docs/compatibility.md.
func ClientRows(page string) (rows []ClientRow, err error) {
	_, table, _, err := cutMatrix(page)
	if err != nil {
		return nil, err
	}
	table, found := strings.CutPrefix(table, matrixHead)
	if !found {
		return nil, fmt.Errorf("the table of clients has another head than %q", matrixHead)
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |\n"), " | ")
		if len(cells) != 6 {
			return nil, fmt.Errorf("row of %d cells: %q", len(cells), line)
		}
		rows = append(rows, ClientRow{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]})
	}
	return rows, nil
}

// WithClientRows returns the page with other rows, sorted by client and by what is checked.
func WithClientRows(page string, rows []ClientRow) (string, error) {
	before, _, after, err := cutMatrix(page)
	if err != nil {
		return "", err
	}
	rows = slices.SortedFunc(slices.Values(rows), func(a, b ClientRow) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Checked, b.Checked))
	})
	var table strings.Builder
	table.WriteString(matrixHead)
	for _, r := range rows {
		_, _ = fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s |\n", r.Client, r.Version, r.Checked,
			r.Result, r.Date, r.APIs)
	}
	return before + matrixBegin + table.String() + matrixEnd + after, nil
}

// MergeClientRows returns the rows of a run, and the present rows for which the run has none.
func MergeClientRows(present, run []ClientRow) []ClientRow {
	merged := slices.Clone(run)
	for _, row := range present {
		if !slices.ContainsFunc(run, func(r ClientRow) bool {
			return r.Client == row.Client && r.Checked == row.Checked
		}) {
			merged = append(merged, row)
		}
	}
	return merged
}

// StaleClientRows returns the rows whose run was with other APIs than the given ones, except those
// that the text around the table admits: it names their hash in backquotes, and says what is
// missing. A later change of the APIs makes all rows stale again, whatever the text says.
func StaleClientRows(page, apis string) ([]ClientRow, error) {
	before, _, after, err := cutMatrix(page)
	if err != nil {
		return nil, err
	}
	rows, err := ClientRows(page)
	return slices.DeleteFunc(rows, func(row ClientRow) bool {
		admitted := strings.Contains(before+after, "with APIs `"+row.APIs+"`, before `"+apis+"`")
		return row.APIs == apis || admitted
	}), err
}

// cutMatrix returns the table between the markers, and the text before and after the markers.
func cutMatrix(page string) (before, table, after string, err error) {
	before, rest, begins := strings.Cut(page, matrixBegin)
	table, after, ends := strings.Cut(rest, matrixEnd)
	if !begins || !ends {
		return "", "", "", fmt.Errorf("the page has no markers of the table of clients")
	}
	return before, table, after, nil
}
