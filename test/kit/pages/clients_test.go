package pages

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func file(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestCompatibilityIsOfTheseAPIs checks that docs/compatibility.md is not older than the table of
// APIs: each row is of a run of make compat whose brokers served these APIs and versions.
func TestCompatibilityIsOfTheseAPIs(t *testing.T) {
	want, err := HashAPIs(file(t, "docs/internals/protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := ClientRows(file(t, "docs/compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 30 {
		t.Errorf("only %d rows", len(rows))
	}
	for _, row := range rows {
		if row.APIs != want {
			t.Errorf("%s, %s: its run of %s was with the APIs %s; present: %s. Run COMPATIBILITY=1 "+
				"make compat", row.Client, row.Checked, row.Date, row.APIs, want)
		}
	}
}

func TestHashOfAPIsChangesWithAVersion(t *testing.T) {
	page := file(t, "docs/internals/protocol.md")
	before, err := HashAPIs(page)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"| 0 | Produce | 0-13 |": "| 0 | Produce | 0-14 |",
		"| 1 | Fetch |": "| 1 | Fetsh |"} {
		changed := strings.Replace(page, from, to, 1)
		if after, err := HashAPIs(changed); err != nil || after == before || changed == page {
			t.Errorf("%q: hash %s, before %s: %v", to, after, before, err)
		}
	}
	if _, err := HashAPIs("no table"); err == nil {
		t.Error("a page without a table has a hash")
	}
}

func TestRowsOfClients(t *testing.T) {
	row := func(client, result, date string) ClientRow {
		return ClientRow{client, "1", "all", result, date, "abc"}
	}
	old := []ClientRow{row("a", "ok", "monday"), row("c", "ok", "monday")}
	page, err := WithClientRows("x\n"+matrixBegin+matrixEnd+"\ny\n", old)
	if err != nil {
		t.Fatal(err)
	}
	merged := MergeClientRows(old, []ClientRow{row("c", "failed", "sunday"), row("b", "ok", "sunday")})
	page, err = WithClientRows(page, merged)
	if err != nil || !strings.HasPrefix(page, "x\n") || !strings.HasSuffix(page, "\ny\n") {
		t.Errorf("page %q: %v", page, err)
	}
	got, err := ClientRows(page)
	want := []ClientRow{old[0], row("b", "ok", "sunday"), row("c", "failed", "sunday")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v: %v", got, want, err)
	}
	for _, bad := range []string{"", matrixBegin + "| a |\n" + matrixEnd,
		matrixBegin + matrixHead + "| a | b |\n" + matrixEnd} {
		if _, err := ClientRows(bad); err == nil {
			t.Errorf("%q has rows", bad)
		}
	}
}
