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
// APIs: the brokers of each run served these APIs and versions, or the page says which they lacked.
func TestCompatibilityIsOfTheseAPIs(t *testing.T) {
	want, err := HashAPIs(file(t, "docs/internals/protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := file(t, "docs/compatibility.md")
	if rows, err := ClientRows(page); err != nil || len(rows) < 30 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	stale, err := StaleClientRows(page, want)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range stale {
		t.Errorf("%s, %s: its run of %s was with the APIs %s; present: %s. Run COMPATIBILITY=1 "+
			"make compat", row.Client, row.Checked, row.Date, row.APIs, want)
	}
}

func TestAdmittedRowsAreStaleAfterTheNextChange(t *testing.T) {
	page, err := WithClientRows("Run with APIs `old1`, before `new1`.\n"+matrixBegin+matrixEnd,
		[]ClientRow{{"a", "1", "x", "ok", "monday", "old1"}, {"b", "1", "x", "ok", "monday", "new1"},
			{"c", "1", "x", "ok", "monday", "old0"}})
	if err != nil {
		t.Fatal(err)
	}
	for apis, want := range map[string]string{"new1": "c", "new2": "abc"} {
		rows, err := StaleClientRows(page, apis)
		got := ""
		for _, row := range rows {
			got += row.Client
		}
		if err != nil || got != want {
			t.Errorf("with APIs %s the rows %q are stale, want %q: %v", apis, got, want, err)
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
