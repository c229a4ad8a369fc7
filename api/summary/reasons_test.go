package summary

import (
	"os"
	"strings"
	"testing"
)

// TestEveryReasonIsExplained: each reason has all its texts, and docs/http.md has the same meaning.
func TestEveryReasonIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range reasons {
		if known.Condition == "" || known.Why(Facts{Transaction: "x"}) == "" ||
			known.Short(Facts{}) == "" {
			t.Errorf("%s lacks a text", known.Reason)
		}
		row := "| `" + known.Reason + "` | " + known.Manual + " |\n"
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/http.md lacks the row %s", row)
		}
	}
	if _, ok := Explain("OfANewerVersion"); ok {
		t.Error("an unknown reason is explained")
	}
}
