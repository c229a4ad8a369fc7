package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON writes a value as indented JSON.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// table is a text table. Each row has as many columns as head.
type table struct {
	head []string
	rows [][]string
}

// newTable returns a table; head contains the names of the columns, separated by spaces.
func newTable(head string) *table { return &table{head: strings.Fields(head)} }

// add adds a row. An empty column is printed as a dash.
func (t *table) add(columns ...string) { t.rows = append(t.rows, columns) }

// print writes the table. Every line begins with indent.
func (t *table) print(out io.Writer, indent string) error {
	writer := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		columns := make([]string, len(row))
		for i, column := range row {
			if columns[i] = printable(column); columns[i] == "" {
				columns[i] = "-"
			}
		}
		_, _ = fmt.Fprintln(writer, indent+strings.Join(columns, "\t"))
	}
	return writer.Flush()
}

// printable removes characters that would break a table or control a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// age formats a duration in the largest unit for which the number is at least two.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// printLine writes a value as one line of JSON.
func printLine(out io.Writer, value any) error { return json.NewEncoder(out).Encode(value) }
